// SPDX-License-Identifier: Apache-2.0
// A tap: it reads a request to a sandbox, and its answer, while the proxy passes them on, and
// writes what they did into the sandbox's call log.
//
// If a request could not be read, its output is counted and not kept, because the values of its
// environment are not known.
//
// Theory of operation. The daemon's proxy is the one place that all clients pass (E2B's SDKs,
// cubby-mcp, cubby, the page), and the guest cannot reach it: a log that envd kept could be changed
// by root in the guest. A tap never holds a byte back. It only copies, and what it copies has a
// limit: CALL_TAP_REQUEST_BYTES of a request, CALL_TAP_LOG_BYTES of all requests to one sandbox,
// CALL_TAP_ALL_BYTES of all requests at once, and the first part of an answer. Requests of at most
// CALL_TAP_SMALL_BYTES are always copied, so that no sandbox's requests make those of others
// unreadable.
//
// A command, code and a terminal have two lines: one when the request is complete and the guest has
// begun to answer, and one of the kind "end" at the end, which names the first by its number
// ("of"). Other requests have one line, at their end. The guest has no say in whether there is a
// line: it may be hostile, and callers ask for a tap only if the client has the right token. What
// it answers before the request is complete waits, because the values that must be hidden in it are
// not known yet. Not recorded are: questions that change nothing and tell nothing of files (Stat,
// List, watches, /metrics ...), the bytes of files and of input, and requests for other ports of
// the guest than envd's and the Python kernel's.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "sandbox-backend/daemon/calls/call_log.h"
#include "sandbox-backend/net/http_server.h"

#define CALL_TAP_REQUEST_BYTES (4 << 20)
#define CALL_TAP_SMALL_BYTES   (64 << 10)
#define CALL_TAP_LOG_BYTES     (8 << 20)
#define CALL_TAP_ALL_BYTES     (64 << 20)

struct call_tap;

// NULL: nothing is recorded of such a request. `path` is that of the guest, decoded. `who` is
// copied. `place` is copied, and its parts stay valid until call_tap_end.
struct call_tap *call_tap_new(const struct call_place *place, struct http_request *req, int port,
                              const char *path, const char *who);
// The following do nothing with NULL.
void call_tap_request(struct call_tap *t, const char *data, size_t len);
void call_tap_request_end(struct call_tap *t); // all of it has come
void call_tap_head(struct call_tap *t, int status);
void call_tap_answer(struct call_tap *t, const char *data, size_t len);
// End the call and free the tap. `fate` is one word that says why the answer is incomplete; NULL if
// it is complete.
void call_tap_end(struct call_tap *t, const char *fate);
