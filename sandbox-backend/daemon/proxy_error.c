// SPDX-License-Identifier: Apache-2.0
// The proxy's own answers, as E2B's proxy words them.
#include "sandbox-backend/daemon/proxy_error.h"

#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/proxy.h"
#include "sandbox-backend/daemon/reply.h"
#include "sandbox-backend/daemon/store.h"

static json_t *body(int status, const char *id, const char *message)
{
    json_t *text = json_lossy_string(message, strlen(message));
    return json_pack("{s:s, s:o, s:i}", "sandboxId", id, "message", text, "code", status);
}

void proxy_error_reserved(struct http_request *req)
{
    const char *path = http_request_path(req);
    reply_json(req, 404,
               json_pack("{s:s, s:o, s:i}", "message",
                         "This endpoint is reserved for the daemon and is not reachable through "
                         "the sandbox's address",
                         "path", json_lossy_string(path, strlen(path)), "code", 404));
}

static void reply_ended(struct http_request *req, const char *id, const char *sentence,
                        enum ended_why why)
{
    char *message auto_free = str_printf("The sandbox has ended: %s", sentence);
    json_t *answer = body(502, id, message);
    json_object_set_new(answer, "reason", json_string(ended_why_name(why)));
    json_object_set_new(answer, "error_code", json_string("sandbox_ended"));
    reply_json(req, 502, answer);
}

void proxy_error_gone(struct http_request *req, struct store *store, const char *id)
{
    const struct ended_entry *ended = store_find_ended(store, id);
    if (ended) {
        char *sentence auto_free = ended_sentence(ended);
        reply_ended(req, id, sentence, ended->why);
        return;
    }
    json_t *answer = body(502, id, "The sandbox was not found");
    json_object_set_new(answer, "error_code", json_string("sandbox_not_found"));
    reply_json(req, 502, answer);
}

void proxy_error_ending(struct http_request *req, const struct sandbox *sb)
{
    struct ended_entry now = sandbox_ending_entry(sb);
    char *sentence auto_free = ended_sentence(&now);
    reply_ended(req, sb->id, sentence, now.why);
}

void proxy_error_port(struct http_request *req, const char *id, int port, const struct err *e)
{
    char *other auto_free =
        str_printf("The sandbox is running but port %d does not answer: %s", port, e->msg);
    bool closed = e->code == ERR_NOT_FOUND;
    int status = e->code == ERR_LIMIT ? 429 : 502; // full: it may be asked again, nothing was sent
    json_t *answer =
        body(status, id, closed ? "The sandbox is running but port is not open" : other);
    json_object_set_new(answer, "port", json_integer(port));
    reply_json(req, status, answer);
}

void proxy_error_broken(struct http_request *req, const char *id, const struct err *e)
{
    char *message auto_free =
        str_printf("The sandbox closed the connection before it answered: %s", e->msg);
    reply_json(req, 502, body(502, id, message));
}

void proxy_error_busy(struct http_request *req, const char *id)
{
    char *message auto_free = str_printf(
        "The sandbox has %d requests open at once, which is the limit", PROXY_STREAMS_MAX);
    reply_json(req, 429, body(429, id, message));
}
