// SPDX-License-Identifier: Apache-2.0
// Which accelerator a template is built for: KVM where a guest really boots under it, else TCG.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "sandbox-backend/base/err.h"

struct accel_probe {
    const char *qemu;   // path of qemu-system-x86_64
    const char *kernel; // the template's own, because others may work where it does not
    const char *initrd; // with our init, which answers the probe
    int log;            // what QEMU and the kernel said goes here, or -1
    void (*tick)(void *ctx);
    void *ctx;
};

// Whether the kernel boots under KVM within a few seconds. /dev/kvm being there proves little:
// under some hypervisors it is, and a stock guest hangs in it for ever. `why`: one clear sentence
// either way. Blocking. -1 with ERR_CANCELED on interruption, else 0.
int accel_try_kvm(const struct accel_probe *probe, bool *works, char *why, size_t why_size,
                  struct err *e);

// wanted: "auto", "kvm" or "tcg". Gives "kvm" or "tcg" and the sentence that says why;
// ERR_PRECONDITION when "kvm" was demanded and does not work.
int accel_choose(const char *wanted, const struct accel_probe *probe, const char **chosen,
                 char *why, size_t why_size, struct err *e);
