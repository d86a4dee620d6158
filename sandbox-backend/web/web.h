// SPDX-License-Identifier: Apache-2.0
// The page of `cubby web`: a server on loopback for one person's browser, in front of a cubbyd.
//
// Theory of operation. The page is static files (page.h). Its scripts use the daemon's own API
// through the server: relay.h passes single requests on, stream.h answers that do not end, and
// live.h sends the figures of all sandboxes once a second. The daemon has no code for the page, so
// an unused page costs it nothing.
//
// Whoever uses the page may do everything that the user of `cubby` may. guard.h says how the server
// knows that a request comes from the page, and not from another page in the same browser.
#pragma once
#include <uv.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/web/backend.h"

struct web;

// Serve at `port` of 127.0.0.1 and ::1; 0: any free port. NULL with `e`. The strings of `backend`
// are borrowed until web_close is done; its HTTP client is made here.
struct web *web_open(uv_loop_t *loop, const struct backend *backend, int port, struct err *e);
// Make a URL that opens the page, once. An earlier one that was not used becomes invalid. New
// string.
char *web_link(struct web *w);
// Asynchronous: free the server, and then call `on_closed`.
void web_close(struct web *w, void (*on_closed)(void *ctx), void *ctx);
