// SPDX-License-Identifier: Apache-2.0
// Process 1 of the guest: the parameters of a module on the guest kernel's command line. No library
// of the host contains the guest's sources, so this test compiles them itself.
#include "sandbox-backend/guest/modules.c"
#include "sandbox-backend/guest/step.c"
#include "tests/lib/harness/tap.h"

static void params(const char *cmdline, const char *module, const char *want)
{
    char got[256];
    modules_params(cmdline, module, got, sizeof(got));
    is_str(got, want, "of %s", module);
}

int main(void)
{
    params("", "virtio_mmio", "");
    params("console=ttyS0 quiet\n", "virtio_mmio", "");
    params("a virtio_mmio.device=512@0xfeb00000:5 b virtio_mmio.device=512@0xfeb00200:6\n",
           "virtio_mmio", "device=512@0xfeb00000:5 device=512@0xfeb00200:6");
    params("virtio-net.napi_tx=0", "virtio_net", "napi_tx=0");
    params("virtio_net.x=1 virtio_net2.y=2 virtio_ne.z=3", "virtio_net", "x=1");
    params(".x=1 virtio_net.", "virtio_net", "");
    char small[8];
    modules_params("m.abc=1 m.defgh=2", "m", small, sizeof(small));
    is_int(strlen(small) < sizeof(small), 1, "a small buffer is not overrun");
    return tap_done();
}
