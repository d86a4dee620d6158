// SPDX-License-Identifier: Apache-2.0
// The check of a sandbox's disk before another QEMU gets it. It reads the header of the qcow2 file
// (QEMU's docs/interop/qcow2.txt), in which all numbers are big-endian.
#include "sandbox-backend/drivers/microvm/image/disk_image.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"

#define MAGIC         0x514649fbu
#define VERSION       3
#define HEAD_BYTES    104  // the shortest header of version 3
#define LOOKED_AT     4096 // bytes of the file; headers that qemu-img writes end within 512
#define INCOMPATIBLE  1ull // the one allowed feature: "dirty", of lazy reference counts
#define EXTENSION_END 0u
#define FEATURE_NAMES 0x6803f857u

struct head {
    uint8_t bytes[LOOKED_AT];
    size_t len;
};

static uint32_t get32(const struct head *h, size_t at)
{
    uint32_t value;
    memcpy(&value, h->bytes + at, sizeof value);
    return be32toh(value);
}

static uint64_t get64(const struct head *h, size_t at)
{
    uint64_t value;
    memcpy(&value, h->bytes + at, sizeof value);
    return be64toh(value);
}

// Check the header's extensions. Only the names of features are allowed, which QEMU shows and does
// not use.
static const char *extensions_fault(const struct head *h)
{
    size_t at = get32(h, 100);
    if (at < HEAD_BYTES || at % 8 != 0)
        return "its head has no such length";
    while (at + 8 <= h->len) {
        uint32_t type = get32(h, at), len = get32(h, at + 4);
        if (type == EXTENSION_END)
            return NULL;
        if (type != FEATURE_NAMES)
            return "it names another file or has other parts";
        if (len > h->len)
            break;
        at += 8 + (((size_t)len + 7) & ~(size_t)7);
    }
    return "its head has no end";
}

static const char *fault(const struct head *h)
{
    if (h->len < HEAD_BYTES || get32(h, 0) != MAGIC || get32(h, 4) != VERSION)
        return "it is not qcow2 of version 3";
    if (get64(h, 8) != 0 || get32(h, 16) != 0)
        return "it names a backing file";
    if (get32(h, 32) != 0)
        return "it is encrypted";
    if (get32(h, 60) != 0)
        return "it has snapshots within";
    if (get64(h, 72) & ~INCOMPATIBLE)
        return "it has features that no disk of a sandbox has";
    return extensions_fault(h);
}

int disk_image_check(const char *path, struct err *e)
{
    struct head h = {0};
    int fd auto_close = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : pread(fd, h.bytes, sizeof h.bytes, 0);
    if (n < 0)
        return err_sys(e, errno, "read %s", path);
    h.len = (size_t)n;
    const char *why = fault(&h);
    return why ? err_set(e, ERR_INVALID, "the image is damaged: its disk cannot be used, %s", why)
               : 0;
}
