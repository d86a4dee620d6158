// SPDX-License-Identifier: Apache-2.0
// The proxy's own answers, as E2B's proxy words them.
#include "sandbox-backend/daemon/proxy_error.h"

#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/proxy_stream.h"
#include "sandbox-backend/daemon/reply.h"
#include "sandbox-backend/daemon/store.h"

// Whether a person looks at it: the SDKs and curl do not ask for a page.
static bool wants_page(const struct http_request *req)
{
    const char *agent = http_request_header(req, "User-Agent");
    const char *accept = http_request_header(req, "Accept");
    return agent && accept && str_starts(agent, "Mozilla/") && strstr(accept, "text/html") &&
           !strstr(accept, "json");
}

static void add_text(struct buf *page, const char *text)
{
    for (; *text; text++) {
        if (strchr("<>&\"'", *text))
            buf_printf(page, "&#%d;", *text);
        else
            buf_addc(page, *text);
    }
}

static void send_page(struct http_request *req, int status, const char *message)
{
    struct buf page auto_buf = BUF_INIT;
    buf_printf(&page,
               "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
               "<title>%d %s</title></head>\n<body><h1>%d %s</h1><p>",
               status, http_status_text(status), status, http_status_text(status));
    add_text(&page, message);
    buf_adds(&page, "</p></body></html>\n");
    http_response_header(req, "X-Content-Type-Options", "nosniff");
    http_response_header(req, "Cache-Control", "no-store");
    http_respond(req, status, "text/html; charset=utf-8", page.data, page.len);
}

static void answer_with(struct http_request *req, int status, json_t *answer /* taken */)
{
    if (status == 409 || status == 429 || status == 503)
        http_response_header(req, "Retry-After", "1"); // it was not passed on, and soon may be
    if (!wants_page(req)) {
        reply_json(req, status, answer);
        return;
    }
    reply_hide(answer);
    send_page(req, status, json_string_value(json_object_get(answer, "message")));
    json_decref(answer);
}

static json_t *body(int status, const char *id, const char *message)
{
    json_t *text = json_lossy_string(message, strlen(message));
    return json_pack("{s:s, s:o, s:i}", "sandboxId", id, "message", text, "code", status);
}

void proxy_error_reserved(struct http_request *req, const char *path)
{
    answer_with(req, 404,
                json_pack("{s:s, s:o, s:i}", "message",
                          "This endpoint is reserved for the E2B control plane and is not "
                          "reachable through the sandbox URL",
                          "path", json_lossy_string(path, strlen(path)), "code", 404));
}

// E2B's Python SDK tells a sandbox that is gone from one that cannot be reached by "was not found".
static void reply_ended(struct http_request *req, const char *id, const char *sentence,
                        enum ended_why why)
{
    char *message auto_free = str_printf("The sandbox was not found; it has ended: %s", sentence);
    json_t *answer = body(502, id, message);
    json_object_set_new(answer, "reason", json_string(ended_why_name(why)));
    json_object_set_new(answer, "error_code", json_string("sandbox_ended"));
    answer_with(req, 502, answer);
}

void proxy_error_gone(struct http_request *req, struct store *store, const char *id)
{
    const struct ended_entry *ended = store_find_ended(store, id);
    if (ended) {
        char *sentence auto_free = ended_sentence(ended);
        reply_ended(req, id, sentence, ended->why);
        return;
    }
    bool is_paused = store_find_any(store, id);
    char *paused auto_free = str_printf("The sandbox was not found running: it is paused, and not "
                                        "killed; Sandbox.connect(\"%s\") resumes it",
                                        id);
    json_t *answer = body(502, id, is_paused ? paused : "The sandbox was not found");
    json_object_set_new(answer, "error_code",
                        json_string(is_paused ? "sandbox_paused" : "sandbox_not_found"));
    answer_with(req, 502, answer);
}

void proxy_error_ending(struct http_request *req, const struct sandbox *sb)
{
    struct ended_entry now = sandbox_ending_entry(sb);
    char *sentence auto_free = ended_sentence(&now);
    reply_ended(req, sb->id, sentence, now.why);
}

void proxy_error_transition(struct http_request *req, const char *id, const char *state)
{
    char *message auto_free = str_printf("The sandbox is %s; ask again in a moment", state);
    json_t *answer = body(409, id, message);
    json_object_set_new(answer, "error_code", json_string("sandbox_in_transition"));
    answer_with(req, 409, answer);
}

void proxy_error_wake(struct http_request *req, struct store *store, const char *id,
                      const struct err *e)
{
    if (e->code == ERR_GONE) {
        proxy_error_gone(req, store, id);
        return;
    }
    char *message auto_free = str_printf("The sandbox could not be resumed: %s", e->msg);
    int status = e->code == ERR_DENIED     ? 403
                 : e->code == ERR_CONFLICT ? 409
                 : e->code == ERR_LIMIT    ? 429
                 : e->code == ERR_BUSY     ? 503
                                           : 502;
    json_t *answer = body(status, id, message);
    if (status == 409)
        json_object_set_new(answer, "error_code", json_string("sandbox_in_transition"));
    answer_with(req, status, answer);
}

void proxy_error_domain(struct http_request *req, const char *id, const char *domain)
{
    char *message auto_free = str_printf(
        "Sandboxes of this daemon have names below %s; ask for one of those, name the sandbox by "
        "E2b-Sandbox-Id and E2b-Sandbox-Port, or start cubbyd with another --domain",
        domain);
    answer_with(req, 421, body(421, id, message));
}

void proxy_error_traffic(struct http_request *req, const char *id)
{
    answer_with(
        req, 403,
        body(403, id,
             "Public traffic to this sandbox is off: the header e2b-traffic-access-token must "
             "hold its token"));
}

void proxy_error_port(struct http_request *req, const char *id, int port, const struct err *e)
{
    char *other auto_free =
        str_printf("The sandbox is running but port %d does not answer: %s", port, e->msg);
    bool closed = e->code == ERR_NOT_FOUND;
    int status = e->code == ERR_LIMIT ? 429 : 502; // full: it may be asked again, nothing was sent
    bool ended = e->code == ERR_UNAVAILABLE;
    json_t *answer = body(status, id,
                          closed  ? "The sandbox is running but port is not open"
                          : ended ? "The sandbox's machine ended; how is not known yet, and told "
                                    "to who asks again in a moment"
                                  : other);
    json_object_set_new(answer, "port", json_integer(port));
    answer_with(req, status, answer);
}

void proxy_error_kernel(struct http_request *req, const char *id)
{
    json_t *answer = body(503, id,
                          "The Python kernel of the sandbox ended and is being started again; "
                          "nothing was run, and the variables are lost. Ask again in a moment");
    json_object_set_new(answer, "port", json_integer(KERNEL_PORT));
    json_object_set_new(answer, "error_code", json_string("kernel_starting"));
    answer_with(req, 503, answer);
}

void proxy_error_broken(struct http_request *req, const char *id, const struct err *e)
{
    char *message auto_free =
        str_printf("The sandbox closed the connection before it answered: %s", e->msg);
    answer_with(req, 502, body(502, id, message));
}

void proxy_error_unanswered(struct http_request *req, const char *id)
{
    answer_with(req, 502,
                body(502, id,
                     "The sandbox was paused before it answered; it may have acted upon the "
                     "request, or do so once it is resumed"));
}

void proxy_error_busy(struct http_request *req, const char *id)
{
    char *message auto_free = str_printf(
        "The sandbox has %d requests open at once, which is the limit", PROXY_STREAMS_MAX);
    answer_with(req, 429, body(429, id, message));
}

void proxy_error_port_refused(struct http_request *req, int status, const char *code,
                              const char *message)
{
    answer_with(
        req, status,
        json_pack("{s:s, s:i, s:s}", "message", message, "code", status, "error_code", code));
}
