// SPDX-License-Identifier: Apache-2.0
// A visit: one HTTP request while it passes the ladder of checks. web_ladder.c checks its head, and
// web_message.c its message.
#pragma once
#include "mcp-server/web/web_answer.h"
#include "mcp-server/web/web_endpoint.h"
#include "mcp-server/web/web_head.h"

// The visit is freed when its request is answered, refused, or handed to a post.
struct web_visit {
    struct web_endpoint *ep;
    struct http_request *req;
    struct web_head head;
    struct caller *caller;  // held; NULL before it is known
    int64_t until_ns;       // end of its token; see auth_answer
    bool counted;           // the check of its head has counted it as a call
    struct body_claim body; // room in ep->bodies: for the body, then for the message
    struct auth_wait *wait; // waiting for the issuer's keys
};

void web_visit_free(struct web_visit *v);

// Answer with an error; always true, so that a rung can return it.
#define web_visit_refuse(v, status, id, code, ...) \
    web_answer_error((v)->req, status, id, code, NULL, __VA_ARGS__)

// Take room for the body of this request; the visit gives it back. False: no room is left.
bool web_visit_take_body(struct web_visit *v);
void web_visit_drop_body(struct web_visit *v);
// Take room for the message until it is answered. Its size in memory counts, which may be many
// times its length. The answering post takes over v->body.
bool web_visit_take_message(struct web_visit *v, const json_t *message);

// Rungs that several kinds of requests share. They return true if they have refused the request.
// `id` is the request's, borrowed, NULL for none.
bool web_visit_bad_version(struct web_visit *v, json_t *id);
// Refuse the request if retry_after_s is not 0, because its caller's rate is exceeded.
bool web_visit_rate_is_over(struct web_visit *v, json_t *id, int retry_after_s);
bool web_visit_busy(struct web_visit *v, json_t *id, const char *of_what); // always true
// Return the session that the request names; NULL: the request was refused.
struct web_session *web_visit_session(struct web_visit *v, json_t *id);

// Check the message, and pass it to its post or refuse it (web_message.c).
void web_message_climb(struct web_visit *v, const char *body, size_t len);
