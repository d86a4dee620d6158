// SPDX-License-Identifier: Apache-2.0
// A checksum of a file's contents.
#include "sandbox-backend/drivers/microvm/image/checksum.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"

// Small enough for a processor's cache. A thread's arena keeps the memory.
#define CHUNK_BYTES (32 * 1024)
#define LANES       4 // independent multiplications
#define BLOCK_BYTES (LANES * sizeof(uint64_t))
#define FACTOR      0x9e3779b97f4a7c15ULL // odd: each step is reversible, so differences stay

_Static_assert(CHUNK_BYTES % BLOCK_BYTES == 0, "only the last chunk has a part of a block");

static uint64_t mix(uint64_t state, uint64_t word)
{
    uint64_t x = state ^ word;
    return ((x << 27) | (x >> 37)) * FACTOR;
}

static void add(uint64_t lanes[LANES], const char *data, size_t len)
{
    uint64_t a = lanes[0], b = lanes[1], c = lanes[2], d = lanes[3], words[LANES];
    for (size_t at = 0; at < len; at += BLOCK_BYTES) {
        memcpy(words, data + at, sizeof words);
        a = mix(a, words[0]);
        b = mix(b, words[1]);
        c = mix(c, words[2]);
        d = mix(d, words[3]);
    }
    lanes[0] = a;
    lanes[1] = b;
    lanes[2] = c;
    lanes[3] = d;
}

// Return less than `max` only at the end of the file.
static ssize_t fill(int fd, char *to, size_t max)
{
    size_t have = 0;
    while (have < max) {
        ssize_t n = read(fd, to + have, max - have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        have += (size_t)n;
    }
    return (ssize_t)have;
}

int checksum_file(const char *path, uint64_t max, uint64_t *sum, struct err *e)
{
    int fd auto_close = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(e, errno, "open %s", path);
    char *chunk auto_free = xmalloc(CHUNK_BYTES);
    uint64_t lanes[LANES] = {1, 2, 3, 4}, total = 0;
    ssize_t n;
    do {
        n = fill(fd, chunk, CHUNK_BYTES);
        if (n < 0)
            return err_sys(e, errno, "read %s", path);
        size_t whole = ((size_t)n + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
        memset(chunk + n, 0, whole - (size_t)n);
        add(lanes, chunk, whole);
        total += (uint64_t)n;
        if (total > max)
            return err_set(e, ERR_TOO_LARGE, "%s has more than %llu bytes", path,
                           (unsigned long long)max);
    } while (n == CHUNK_BYTES);
    *sum = total;
    for (size_t i = 0; i < LANES; i++)
        *sum = mix(*sum, lanes[i]);
    return 0;
}
