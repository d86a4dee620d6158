// SPDX-License-Identifier: Apache-2.0
// The memory of a warm guest goes into a file that all sandboxes of the template share.
//
// The guest cannot write to the file, because its file system is read-only. So the build writes
// into the image: mkfs.erofs stores the file in one piece, whose beginning has a mark. The guest
// sees the new contents at once.
#include "sandbox-backend/template/gvisor_fold.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/template/call.h"
#include "sandbox-backend/template/gvisor_image.h"

#define BLOCK_BYTES 4096
#define MARK_AT_MAX (1 << 20) // what stands before the file is a few blocks
#define DUMP        "/var/tmp/cubby-fold"
#define FOLD        GVISOR_TOOLS "/fold"
#define FOLD_MS     600000 // as long as a warm-up may take
#define STALL_MS    120000

static int run(struct pump *p, const char *vmnet, const char *script, int log, struct err *e)
{
    struct buf out auto_buf = BUF_INIT;
    const char *args[] = {"-l", "-c", script, NULL};
    const struct call_command command = {
        .user = "root", .cmd = "/bin/bash", .args = args, .timeout_ms = FOLD_MS};
    int result = call_run(p, vmnet, &command, &out, e);
    (void)fd_write_all(log, buf_str(&out), out.len, NULL);
    return result;
}

// Return where the file begins in the image, or -1.
static int64_t find_pages(int image, struct err *e)
{
    char start[sizeof GVISOR_PAGES_MARK - 1];
    for (int64_t at = 0; at < MARK_AT_MAX; at += BLOCK_BYTES)
        if (pread(image, start, sizeof start, at) == (ssize_t)sizeof start &&
            memcmp(start, GVISOR_PAGES_MARK, sizeof start) == 0)
            return at;
    return err_set(e, ERR_INTERNAL, GVISOR_MEMORY " has no mark where the memory begins");
}

// Give the blocks after the last page back to the disk.
static void give_rest_back(int image, int64_t from, int64_t to)
{
    from = (from + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
    if (to > from)
        (void)fallocate(image, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from, to - from);
}

int gvisor_fold(struct pump *p, const char *vmnet, const char *parts, int log, struct err *e)
{
    char *path auto_free = str_printf("%s/" GVISOR_MEMORY, parts);
    char *dump auto_free =
        str_printf(FOLD " dump " DUMP " %lld all", (long long)GVISOR_PAGES_BYTES);
    int image auto_close = open(path, O_RDWR | O_CLOEXEC);
    if (image < 0)
        return err_sys(e, errno, "open %s", path);
    int64_t at = find_pages(image, e), bytes = 0;
    if (at < 0 || run(p, vmnet, dump, log, e) < 0 ||
        call_fetch(p, vmnet, DUMP, image, at, GVISOR_PAGES_BYTES, STALL_MS, &bytes, e) < 0)
        return -1;
    give_rest_back(image, at + bytes, at + GVISOR_PAGES_BYTES);
    return run(p, vmnet, "rm " DUMP " && " FOLD " map " GVISOR_PAGES, log, e);
}
