// SPDX-License-Identifier: Apache-2.0
// Talking to a guest's envd through its vm.net socket while a template is built: is it there, and
// run a command. One connection a call, which we begin to close before the call returns.
#pragma once
#include <stdint.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/drivers/microvm/template_pump.h"

// Waits until envd answers /health.
int call_await_envd(struct pump *p, const char *vmnet, uint64_t timeout_ms, struct err *e);

struct call_command {
    const char *user;
    const char *cmd;
    const char *const *args; // NULL-terminated
    uint64_t timeout_ms;
};
// Runs a command to its end and appends what it wrote, stdout and stderr together, to `out` (at
// most 64 KiB). -1 when it did not exit with status 0; the message has the status and the last
// line.
int call_run(struct pump *p, const char *vmnet, const struct call_command *command, struct buf *out,
             struct err *e);
