// SPDX-License-Identifier: Apache-2.0
// The figures of all sandboxes, for every page that shows them: the daemon's answer to
// GET /sandboxes/stats as a text, once a second, or {"code", "message"} while the daemon does not
// answer. The daemon is asked once for all pages, and not at all while no page listens.
#pragma once
#include <stdbool.h>
#include <uv.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/net/http_server.h"
#include "sandbox-backend/web/backend.h"

struct live {
    const struct backend *backend; // borrowed
    uv_timer_t timer;
    struct live_page *first;
    struct http_fetch *fetch; // a question in progress
    int status;
    struct buf answer;   // the last one, or the part of it that has come
    int64_t answered_ms; // when it came, on the monotonic clock; 0: it is not complete
    bool is_closing;
    void (*on_closed)(void *ctx);
    void *ctx;
};

void live_init(struct live *l, uv_loop_t *loop, const struct backend *backend);
void live_accept(struct live *l, struct http_request *req);
// End all pages. Asynchronous: the memory may be freed after `on_closed`, and once the backend's
// HTTP client is closed.
void live_close(struct live *l, void (*on_closed)(void *ctx), void *ctx);
