// SPDX-License-Identifier: Apache-2.0
// Connect to a unix socket on a libuv loop. For a sandbox's vm.net socket, also do its handshake.
#pragma once
#include <stdint.h>
#include <uv.h>

#include "sandbox-backend/base/err.h"

// `stream` is a uv_pipe_t from malloc, connected and not reading, which the callback takes over. It
// is NULL on failure, and `e` is set.
typedef void (*unix_stream_cb)(uv_stream_t *stream, const struct err *e, void *ctx);

// Connect to `path`. The callback comes from the loop, exactly once.
void unix_stream_connect(uv_loop_t *loop, const char *path, unix_stream_cb cb, void *ctx);

// Connect to a sandbox's vm.net socket, send "CONNECT <port>\n" and wait for "OK\n" (the convention
// of Firecracker's vsock socket). ERR_NOT_FOUND: nobody listens on the port; ERR_UNAVAILABLE: netd
// is dead; ERR_TIMEOUT: no answer within timeout_ms.
void vmnet_connect(uv_loop_t *loop, const char *path, int port, uint64_t timeout_ms,
                   unix_stream_cb cb, void *ctx);

// Connect to a port on the guest's loopback, through envd's relay (envd/guest/relay.h). The relay
// gets the same CONNECT line.
void vmnet_connect_loopback(uv_loop_t *loop, const char *path, int port, uint64_t timeout_ms,
                            unix_stream_cb cb, void *ctx);
