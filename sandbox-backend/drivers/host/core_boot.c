// SPDX-License-Identifier: Apache-2.0
// A guest that boots, instead of being restored. Its machine is ready when envd accepts
// connections.
//
// A boot takes some seconds under emulation. Nothing tells the host when envd listens, so this code
// connects repeatedly. While the guest's network is not up, netd itself retries.
#include <stdlib.h>

#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/drivers/host/core.h"

#define BOOT_LIMIT_MS 120000 // a busy host without hardware virtualisation may need 20 s
#define ATTEMPT_MS    2000
#define AGAIN_MS      100

struct core_boot {
    struct machine_core *core; // borrowed; NULL once no machine waits for the connection
    bool connecting;
    struct deadline again;
};

static void attempt(struct core_boot *b);
static void on_connected(uv_stream_t *stream, const struct err *e, void *ctx);

static void on_again_closed(struct deadline *d)
{
    free(container_of(d, struct core_boot, again));
}

static void on_again(struct deadline *d)
{
    attempt(container_of(d, struct core_boot, again));
}

void core_boot_start(struct machine_core *core)
{
    struct core_boot *b = xcalloc(1, sizeof *b);
    b->core = core;
    deadline_init(&b->again, core->loop, on_again);
    core->boot = b;
    deadline_arm(&core->deadline, BOOT_LIMIT_MS);
    attempt(b);
}

void core__boot_abandon(struct machine_core *core)
{
    struct core_boot *b = steal(&core->boot);
    if (!b)
        return;
    b->core = NULL;
    if (!b->connecting)
        deadline_close(&b->again, on_again_closed);
}

static void attempt(struct core_boot *b)
{
    b->connecting = true;
    vmnet_connect(b->core->loop, b->core->vmnet, ENVD_PORT, ATTEMPT_MS, on_connected, b);
}

static void on_stream_closed(uv_handle_t *handle)
{
    free(handle);
}

static void on_connected(uv_stream_t *stream, const struct err *e, void *ctx)
{
    struct core_boot *b = ctx;
    struct machine_core *core = b->core;
    (void)e; // the machine's deadline reports a failure
    b->connecting = false;
    if (stream)
        uv_close((uv_handle_t *)stream, on_stream_closed);
    if (!core) {
        deadline_close(&b->again, on_again_closed);
    } else if (core->state != MACHINE_STARTING) {
        core__boot_abandon(core);
    } else if (stream) {
        core__boot_abandon(core);
        core_ready(core, MACHINE_RUNNING);
    } else {
        deadline_arm(&b->again, core->kind->look_ms ? core->kind->look_ms : AGAIN_MS);
    }
}
