// SPDX-License-Identifier: Apache-2.0
// Prints how the driver of microVMs names its emulated machine, a line each: QEMU's program, -M,
// -cpu, and the guest kernel's arguments. tests/arm64 boots a machine with them.
#include <stdio.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/drivers/host/arch.h"
#include "sandbox-backend/drivers/microvm/qemu/qemu.h"

int main(void)
{
    char *args auto_free = qemu_kernel_args("tcg");
    printf("%s\n%s\n%s\n%s\n", ARCH_QEMU, QEMU_MACHINE, qemu_cpu_model("tcg"), args);
    return 0;
}
