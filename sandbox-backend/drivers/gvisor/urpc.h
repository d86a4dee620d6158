// SPDX-License-Identifier: Apache-2.0
// Calls to a sentry's control socket.
//
// The protocol is gVisor's own (pkg/urpc) and has no promise of compatibility, so it is spoken with
// the pinned runsc only (runsc_pin.h). A request is one JSON object, {"method", "arg"}, with
// descriptors beside its first byte (SCM_RIGHTS). The answer is {"success", "err", "result"}. The
// sentry ignores unknown members and takes absent ones as zero, so a misspelt name causes no error.
//
// Each call has a connection of its own, because a restore resets the sentry's server.
#pragma once
#include <jansson.h>
#include <stdint.h>
#include <uv.h>

#include "sandbox-backend/base/err.h"

#define URPC_FDS_MAX      8
#define URPC_ANSWER_BYTES 65536

struct urpc_call; // frees itself after its callback, or once it is abandoned

// `e` is NULL on success.
typedef void (*urpc_cb)(const struct err *e, void *ctx);
// `result` is borrowed.
typedef void (*urpc_result_cb)(const json_t *result, void *ctx);

struct urpc_request {
    const char *path;   // of the control socket
    const char *method; // "containerManager.Pause"
    json_t *arg;        // taken; NULL: null
    const int *fds;     // borrowed until urpc_send returns
    int fd_count;
    uint64_t limit_ms; // a call that is not answered in time fails with ERR_TIMEOUT
    urpc_cb on_slow;   // NULL, or: gets that error first, and the call goes on for slow_ms
    uint64_t slow_ms;
    urpc_result_cb on_result; // NULL, or: gets the result of a call that succeeds, before `cb`
    size_t answer_max;        // bytes; 0: URPC_ANSWER_BYTES
};

// Send the request. The callback comes from the loop, exactly once, unless the call is abandoned.
struct urpc_call *urpc_send(uv_loop_t *loop, const struct urpc_request *request, urpc_cb cb,
                            void *ctx);
void urpc_abandon(struct urpc_call *call); // the callback does not come. NULL is fine
