// SPDX-License-Identifier: Apache-2.0
// The files that QEMU opens by name.
#include "sandbox-backend/drivers/microvm/qemu_files.h"

#include <assert.h>
#include <stddef.h>

#include "sandbox-backend/base/mem.h"

// The accelerator is a module in Debian's QEMU. A machine that is restored needs the firmware too:
// it is loaded before what was saved takes its place.
static const char *const FILES[] = {
    "/usr/lib/x86_64-linux-gnu/qemu/accel-tcg-x86_64.so",
    "/usr/lib/qemu/accel-tcg-x86_64.so",
    "/usr/lib64/qemu/accel-tcg-x86_64.so",
    "/usr/share/qemu/bios-microvm.bin",
    "/usr/share/seabios/bios-microvm.bin",
    "/usr/share/qemu/linuxboot_dma.bin",
    "/usr/share/qemu/linuxboot.bin",
    "/usr/share/qemu/pvh.bin",
    "/usr/share/qemu/kvmvapic.bin",
};

void qemu_files(const char *out[QEMU_FILES_MAX], const char *kernel, const char *initrd)
{
    static_assert(ARRAY_LEN(FILES) + 3 <= QEMU_FILES_MAX, "room for all");
    size_t n = 0;
    for (; n < ARRAY_LEN(FILES); n++)
        out[n] = FILES[n];
    if (kernel)
        out[n++] = kernel;
    if (initrd)
        out[n++] = initrd;
    out[n] = NULL;
}
