// SPDX-License-Identifier: Apache-2.0
// Connecting to a unix socket on a libuv loop, and the vm.net handshake of a sandbox.
#pragma once
#include <stdint.h>
#include <uv.h>

#include "sandbox-backend/base/err.h"

// `stream` is a heap uv_pipe_t, connected and not reading, given to the callee; NULL with `e` set
// on failure.
typedef void (*unix_stream_cb)(uv_stream_t *stream, const struct err *e, void *ctx);

// Connects to `path`. The callback comes from the loop, exactly once.
void unix_stream_connect(uv_loop_t *loop, const char *path, unix_stream_cb cb, void *ctx);

// Connects to a sandbox's vm.net socket, says "CONNECT <port>\n" and waits for "OK\n" (the
// convention of Firecracker's vsock socket). A port nobody listens on is ERR_NOT_FOUND, a dead
// netd ERR_UNAVAILABLE, no answer within timeout_ms ERR_TIMEOUT.
void vmnet_connect(uv_loop_t *loop, const char *path, int port, uint64_t timeout_ms,
                   unix_stream_cb cb, void *ctx);

// The same for a port of the guest's loopback, by envd's relay (envd/relay.h), to which the line is
// said a second time.
void vmnet_connect_loopback(uv_loop_t *loop, const char *path, int port, uint64_t timeout_ms,
                            unix_stream_cb cb, void *ctx);
