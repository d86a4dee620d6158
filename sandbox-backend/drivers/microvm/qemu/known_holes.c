// SPDX-License-Identifier: Apache-2.0
// Published holes of QEMU in the devices of Cubby's guests, by version.
#include "sandbox-backend/drivers/microvm/qemu/known_holes.h"

#include <stdbool.h>
#include <stdio.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/mem.h"

#define BRANCHES_MAX 3

struct version {
    int major, minor, micro;
};

// The first fixed version of each stable branch, in ascending order. Later branches have the fix,
// and so do all versions after the last one.
static const struct hole {
    const char *cve, *device;
    struct version fixed[BRANCHES_MAX]; // ends with zeros
} HOLES[] = {
    {"CVE-2021-3748", "virtio-net", {{6, 2, 0}}},
    {"CVE-2026-50624", "virtio-rng", {{11, 1, 1}}},
    {"CVE-2026-66900", "virtio-net", {{10, 0, 14}, {11, 1, 2}}},
};

static int compare(const struct version *a, const struct version *b)
{
    if (a->major != b->major)
        return a->major - b->major;
    return a->minor != b->minor ? a->minor - b->minor : a->micro - b->micro;
}

static bool is_fixed(const struct hole *hole, const struct version *v)
{
    const struct version *last = hole->fixed;
    for (size_t i = 0; i < BRANCHES_MAX && hole->fixed[i].major; i++) {
        last = &hole->fixed[i];
        if (last->major == v->major && last->minor == v->minor)
            return v->micro >= last->micro;
    }
    return compare(v, last) >= 0;
}

char *known_holes(const char *version)
{
    struct buf list auto_buf = BUF_INIT;
    struct version v = {0};
    if (sscanf(version, "%d.%d.%d", &v.major, &v.minor, &v.micro) < 2)
        return xstrdup("");
    for (size_t i = 0; i < ARRAY_LEN(HOLES); i++)
        if (!is_fixed(&HOLES[i], &v))
            buf_printf(&list, "%s%s (%s)", list.len ? ", " : "", HOLES[i].cve, HOLES[i].device);
    return xstrdup(buf_str(&list));
}
