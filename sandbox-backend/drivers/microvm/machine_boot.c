// SPDX-License-Identifier: Apache-2.0
// A machine of another size than its template: its guest boots, from the template's kernel on the
// template's disk, and the machine is ready when envd accepts connections.
//
// That takes some seconds under emulation. Nothing tells from the outside when envd listens, so it
// is tried again and again; while the guest's network is not up yet, netd itself keeps trying.
#include <stdlib.h>

#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/drivers/microvm/machine.h"
#include "sandbox-backend/drivers/microvm/qemu.h"

#define BOOT_LIMIT_MS 120000 // a busy host without hardware virtualisation may need 20 s
#define ATTEMPT_MS    2000
#define AGAIN_MS      100

struct machine_boot {
    struct machine *m; // borrowed; NULL once nobody waits for it
    bool connecting;
    struct deadline again;
};

static void attempt(struct machine_boot *b);
static void on_connected(uv_stream_t *stream, const struct err *e, void *ctx);

static void on_again_closed(struct deadline *d)
{
    free(container_of(d, struct machine_boot, again));
}

static void on_again(struct deadline *d)
{
    attempt(container_of(d, struct machine_boot, again));
}

void machine__boot(struct machine *m)
{
    struct machine_boot *b = xcalloc(1, sizeof *b);
    b->m = m;
    deadline_init(&b->again, m->loop, on_again);
    m->boot = b;
    deadline_arm(&m->deadline, BOOT_LIMIT_MS);
    attempt(b);
}

void machine__boot_abandon(struct machine *m)
{
    struct machine_boot *b = steal(&m->boot);
    if (!b)
        return;
    b->m = NULL;
    if (!b->connecting)
        deadline_close(&b->again, on_again_closed);
}

static void attempt(struct machine_boot *b)
{
    b->connecting = true;
    vmnet_connect(b->m->loop, b->m->vmnet, ENVD_PORT, ATTEMPT_MS, on_connected, b);
}

static void on_stream_closed(uv_handle_t *handle)
{
    free(handle);
}

static void on_connected(uv_stream_t *stream, const struct err *e, void *ctx)
{
    struct machine_boot *b = ctx;
    struct machine *m = b->m;
    (void)e; // it is the deadline of the machine that tells of it
    b->connecting = false;
    if (stream)
        uv_close((uv_handle_t *)stream, on_stream_closed);
    if (!m) {
        deadline_close(&b->again, on_again_closed);
    } else if (m->state != MACHINE_STARTING) {
        machine__boot_abandon(m);
    } else if (stream) {
        machine__boot_abandon(m);
        machine__ready(m, MACHINE_RUNNING);
    } else {
        deadline_arm(&b->again, AGAIN_MS);
    }
}
