// SPDX-License-Identifier: Apache-2.0
// A request on its way up the ladder (web_ladder.c for its head, web_message.c for its message).
#pragma once
#include "mcp-server/web/web_answer.h"
#include "mcp-server/web/web_endpoint.h"
#include "mcp-server/web/web_head.h"

// A request on its way up. Gone when it is answered, refused, or handed to a post.
struct web_visit {
    struct web_endpoint *ep;
    struct http_request *req;
    struct web_head head;
    struct caller *caller;  // held; NULL before it is known
    int64_t until_ns;       // of its token, see auth_answer
    bool counted;           // as a call, by what its head says
    struct body_claim body; // of ep->bodies: the body, then the message
    struct auth_wait *wait; // for the keys that tell it
};

void web_visit_free(struct web_visit *v);

// Answers with an error; always true, so that a rung can return it.
#define web_visit_refuse(v, status, id, code, ...) \
    web_answer_error((v)->req, status, id, code, NULL, __VA_ARGS__)

// Room for the body of this request among those that are on their way; it is given back with the
// visit. False: there is none.
bool web_visit_take_body(struct web_visit *v);
void web_visit_drop_body(struct web_visit *v);
// The same for the message that it was, as long as that is being answered: by what it takes in
// memory, which may be many times its length. Whoever answers it takes v->body over.
bool web_visit_take_message(struct web_visit *v, const json_t *message);

// Rungs that several kinds of requests have. `id` is that of the request, borrowed, NULL for none.
// True: it was refused.
bool web_visit_bad_version(struct web_visit *v, json_t *id);
bool web_visit_rate_is_over(struct web_visit *v, json_t *id, int retry_after_s); // 0: no
bool web_visit_busy(struct web_visit *v, json_t *id, const char *of_what);       // always true
// The session that is named. NULL: the request was refused.
struct web_session *web_visit_session(struct web_visit *v, json_t *id);

// Takes the message to where it belongs, or refuses it (web_message.c).
void web_message_climb(struct web_visit *v, const char *body, size_t len);
