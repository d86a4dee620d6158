// SPDX-License-Identifier: Apache-2.0
// The choice of a template's accelerator: KVM where a guest really boots under it, else TCG.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "sandbox-backend/base/err.h"

struct accel_probe {
    const char *qemu;   // path of qemu-system-x86_64
    const char *kernel; // the template's own: another kernel may boot where this one does not
    const char *initrd; // with Cubby's init, which answers the probe
    void (*tick)(void *ctx);
    void *ctx;
};

// Try whether the kernel boots under KVM within a few seconds. That /dev/kvm exists proves little:
// under some hypervisors a guest then hangs for ever. `why` gets one sentence in either case.
// Blocking. Return -1 with ERR_CANCELED on interruption, else 0.
int accel_try_kvm(const struct accel_probe *probe, bool *works, char *why, size_t why_size,
                  struct err *e);

// Choose "kvm" or "tcg", and give the sentence that says why. wanted: "auto", "kvm" or "tcg".
// ERR_PRECONDITION when "kvm" is wanted and does not work.
int accel_choose(const char *wanted, const struct accel_probe *probe, const char **chosen,
                 char *why, size_t why_size, struct err *e);
