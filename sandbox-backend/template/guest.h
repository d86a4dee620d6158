// SPDX-License-Identifier: Apache-2.0
// The guest that a template is made from: boot it, and save it.
#pragma once
#include <stdint.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/template/pump.h"

struct template_guest; // QEMU and cubby-netd, on a pump

struct template_guest_spec {
    const char *dir;   // the build directory; has the disk, kernel and initramfs
    const char *qemu;  // path of qemu-system-x86_64
    const char *netd;  // path of cubby-netd
    const char *accel; // "tcg" or "kvm"
    int64_t memory_mb;
    int64_t cpus;
    int log; // descriptor for the messages of QEMU and netd
};

#define TEMPLATE_CONSOLE "console.log"

// Start both processes, so that the guest begins to boot. When one of them ends, or the guest
// reboots, the pump's waits fail. On failure, return NULL with `e`; no process is left.
struct template_guest *template_guest_start(struct pump *p, const struct template_guest_spec *spec,
                                            struct err *e);
const char *template_guest_vmnet(const struct template_guest *g); // path of the socket. Borrowed

// Wait until the guest has given back its free memory, as far as the host can see that.
int template_guest_settle(struct template_guest *g, struct err *e);

// Stop the guest, write TEMPLATE_VMSTATE, and end QEMU cleanly, so that TEMPLATE_MEMORY and
// TEMPLATE_DISK are complete. The guest cannot be used afterwards.
int template_guest_save(struct template_guest *g, struct err *e);

// End the processes that still run. pump_fini frees `g`.
void template_guest_close(struct template_guest *g);
