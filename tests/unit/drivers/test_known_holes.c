// SPDX-License-Identifier: Apache-2.0
// Published holes of QEMU, by version.
#include <stdlib.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/drivers/microvm/qemu/known_holes.h"
#include "tests/lib/harness/tap.h"

#define RNG "CVE-2026-50624 (virtio-rng)"
#define NET "CVE-2026-66900 (virtio-net)"

static void check(const char *version, const char *expected)
{
    char *list auto_free = known_holes(version);
    is_str(list, expected, "%s", version);
}

int main(void)
{
    check("6.1.1", "CVE-2021-3748 (virtio-net), " RNG ", " NET);
    check("6.2", RNG ", " NET);
    check("7.2.22", RNG ", " NET);
    check("10.0.13", RNG ", " NET);
    check("10.0.14", RNG);
    check("10.1.0", RNG ", " NET);
    check("11.1.1", NET);
    check("11.1.2", "");
    check("11.2.0", "");
    check("12.0.0", "");
    check("", "");
    check("next", "");
    return tap_done();
}
