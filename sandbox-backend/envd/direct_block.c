// SPDX-License-Identifier: Apache-2.0
// Blocks for direct I/O. Each is mapped while it is used, so that an idle envd holds none.
#include "sandbox-backend/envd/direct_block.h"

#include <fcntl.h>
#include <stddef.h>
#include <sys/mman.h>

static int taken;

char *direct_block_take(void)
{
    if (taken == DIRECT_BLOCKS)
        return NULL;
    void *block =
        mmap(NULL, DIRECT_BLOCK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED)
        return NULL;
    taken++;
    return block;
}

void direct_block_give(char *block)
{
    if (!block)
        return;
    munmap(block, DIRECT_BLOCK_BYTES);
    taken--;
}

bool direct_block_switch(int fd, bool is_direct)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0)
        return false;
    return fcntl(fd, F_SETFL, is_direct ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}
