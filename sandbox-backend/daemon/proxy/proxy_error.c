// SPDX-License-Identifier: Apache-2.0
// The proxy's own answers, as E2B's proxy words them.
#include "sandbox-backend/daemon/proxy/proxy_error.h"

#include <stdarg.h>
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/http/reply.h"
#include "sandbox-backend/daemon/sandbox/admit.h"
#include "sandbox-backend/daemon/sandbox/moved.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/daemon/sandbox/store.h"

#define NOT_FOUND "The sandbox was not found"

// Return whether a browser shows the answer. The SDKs and curl do not accept HTML.
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
        http_response_header(req, "Retry-After", "1"); // it was not passed on, and may be soon
    if (!wants_page(req)) {
        reply_json(req, status, answer);
        return;
    }
    reply_hide(answer);
    const char *detail = json_string_value(json_object_get(answer, "detail"));
    send_page(req, status, detail ? detail : json_string_value(json_object_get(answer, "message")));
    json_decref(answer);
}

// {"sandboxId","message","code"}; `id` may be NULL.
static json_t *body(int status, const char *id, const char *message)
{
    return json_pack("{s:s*, s:o, s:i}", "sandboxId", id, "message",
                     json_lossy_string(message, strlen(message)), "code", status);
}

static void set(json_t *answer, const char *key, const char *text)
{
    json_object_set_new(answer, key, json_string(text));
}

static void set_lossy(json_t *answer, const char *key, const char *text)
{
    json_object_set_new(answer, key, json_lossy_string(text, strlen(text)));
}

void proxy_error(struct http_request *req, int status, const char *id, const char *code,
                 const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    char *message auto_free = str_vprintf(fmt, args);
    va_end(args);
    json_t *answer = body(status, id, message);
    if (code)
        set(answer, "error_code", code);
    answer_with(req, status, answer);
}

void proxy_error_reserved(struct http_request *req, const char *path)
{
    answer_with(req, 404,
                json_pack("{s:s, s:o, s:i}", "message",
                          "This endpoint is reserved for the E2B control plane and is not "
                          "reachable through the sandbox URL",
                          "path", json_lossy_string(path, strlen(path)), "code", 404));
}

// The message is E2B's to the letter, since programs compare it. What happened is in "detail".
static void reply_ended(struct http_request *req, const char *id, const struct ended_entry *ended)
{
    char *sentence auto_free = ended_sentence(ended);
    char *detail auto_free =
        str_printf("The sandbox was not found, because it has ended: %s", sentence);
    json_t *answer = body(502, id, NOT_FOUND);
    set_lossy(answer, "detail", detail);
    set(answer, "reason", ended_why_name(ended->why));
    set(answer, "error_code", "sandbox_ended");
    answer_with(req, 502, answer);
}

static void not_here(struct http_request *req, const struct store *store, const char *id)
{
    char *node auto_free = moved_to(store, id);
    if (node)
        reply_moved(req, id, node);
    else if (sandbox_id_is_foreign(id, store->node))
        reply_foreign(req, id, store->node);
    else
        proxy_error(req, 502, id, "sandbox_not_found", NOT_FOUND);
}

void proxy_error_gone(struct http_request *req, struct store *store, const char *id)
{
    const struct ended_entry *ended = store_find_ended(store, id);
    if (ended)
        reply_ended(req, id, ended);
    else if (store_find_any(store, id))
        proxy_error(req, 502, id, "sandbox_paused",
                    "The sandbox was not found running, because it is paused; "
                    "Sandbox.connect(\"%s\") resumes it",
                    id);
    else
        not_here(req, store, id);
}

void proxy_error_ending(struct http_request *req, const struct sandbox *sb)
{
    struct ended_entry now = sandbox_ending_entry(sb);
    if (sb->why == ENDED_MOVED)
        not_here(req, sb->store, sb->id);
    else
        reply_ended(req, sb->id, &now);
}

void proxy_error_transition(struct http_request *req, const struct sandbox *sb)
{
    proxy_error(req, 409, sb->id, "sandbox_in_transition",
                "The sandbox is %s; try again in a moment", sandbox_state_name(sb->state));
}

void proxy_error_wake(struct http_request *req, struct store *store, const char *id,
                      const struct err *e)
{
    int status = e->code == ERR_DENIED     ? 403
                 : e->code == ERR_CONFLICT ? 409
                 : e->code == ERR_LIMIT    ? 429
                 : e->code == ERR_BUSY     ? 503
                                           : 502;
    const struct sandbox *sb = store_find_any(store, id);
    bool leaves = status == 503 && sb && admit_is_leaving(sb);
    if (e->code == ERR_GONE)
        proxy_error_gone(req, store, id);
    else
        proxy_error(req, status, id,
                    leaves          ? "sandbox_moving"
                    : status == 409 ? "sandbox_in_transition"
                                    : NULL,
                    "The sandbox could not be resumed: %s", e->msg);
}

void proxy_error_port(struct http_request *req, const char *id, int port, const struct err *e)
{
    char *other auto_free =
        str_printf("The sandbox is running but port %d does not answer: %s", port, e->msg);
    int status = e->code == ERR_LIMIT
                     ? 429
                     : 502; // 429: the limit of connections is reached; nothing was sent
    json_t *answer =
        body(status, id,
             e->code == ERR_NOT_FOUND ? "The sandbox is running but port is not open"
             : e->code == ERR_UNAVAILABLE
                 ? "The sandbox's machine has ended; try again in a moment to learn why"
                 : other);
    json_object_set_new(answer, "port", json_integer(port));
    answer_with(req, status, answer);
}

void proxy_error_kernel(struct http_request *req, const char *id)
{
    json_t *answer = body(503, id,
                          "The Python kernel of the sandbox ended and is being restarted; no code "
                          "was run, and the variables are lost. Try again in a moment");
    json_object_set_new(answer, "port", json_integer(KERNEL_PORT));
    set(answer, "error_code", "kernel_starting");
    answer_with(req, 503, answer);
}
