// SPDX-License-Identifier: Apache-2.0
// The guest that a template is made from: boot it, and save it as the template's snapshot.
#pragma once
#include <stdint.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/drivers/microvm/template_pump.h"

struct template_guest; // QEMU and cubby-netd, on a pump

struct template_guest_spec {
    const char *dir; // of the build: TEMPLATE_DISK, TEMPLATE_KERNEL, TEMPLATE_INITRD; gets the rest
    const char *qemu;  // path of qemu-system-x86_64
    const char *netd;  // path of cubby-netd
    const char *accel; // "tcg" or "kvm"
    int64_t memory_mb;
    int64_t cpus;
    int log; // QEMU's and netd's messages
};

#define TEMPLATE_CONSOLE "console.log"

// Starts both processes; the guest begins to boot. When one of them ends, or the guest reboots, the
// pump is told (its waits fail). NULL with `e`, and nothing left, on failure.
struct template_guest *template_guest_start(struct pump *p, const struct template_guest_spec *spec,
                                            struct err *e);
const char *template_guest_vmnet(const struct template_guest *g); // path of the socket. Borrowed

// Waits until the guest has given back what is free of its memory, as far as that can be seen.
int template_guest_settle(struct template_guest *g, struct err *e);

// Stops the guest, writes TEMPLATE_VMSTATE, and ends QEMU in good order, so that TEMPLATE_MEMORY
// and TEMPLATE_DISK are whole. The guest cannot be used after it.
int template_guest_save(struct template_guest *g, struct err *e);

// Ends what still runs. `g` is freed while the pump finishes (pump_fini).
void template_guest_close(struct template_guest *g);
