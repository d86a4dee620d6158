// SPDX-License-Identifier: Apache-2.0
// GET /sandboxes/{id}/record: the sandbox's call log (calls/call_log.h), also after its end. The
// answer is the lines as they are in the log, because their hashes are over these bytes: those with
// numbers above `after`, at most RECORD_BYTES. A client asks again until an answer is empty.
//
// Requests that change a sandbox get a line of their own, which says who sent them.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/sandbox_id.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/api/api.h"
#include "sandbox-backend/daemon/calls/call_files.h"
#include "sandbox-backend/daemon/calls/call_message.h"
#include "sandbox-backend/daemon/calls/call_output.h"
#include "sandbox-backend/daemon/http/api_keys.h"
#include "sandbox-backend/daemon/http/reply.h"
#include "sandbox-backend/daemon/sandbox/admit.h"
#include "sandbox-backend/daemon/sandbox/store.h"

#define RECORD_BYTES ((size_t)1 << 20)
#define RECORD_TYPE  "application/x-ndjson"
#define AGENT_BYTES  80
#define LIST_MAX     64
#define BODY_BYTES   2048 // of the texts of a body
#define SANDBOXES    "/sandboxes/{}"

// ---- 1. the record

struct record_reading {
    struct reading reading;
    struct store *store;
    char *id; // owned
    int64_t after;
    bool is_seen; // the sandbox was found, and the caller may see it
    struct buf lines;
    json_t *owner; // owned; as the log has it
    struct err err;
};

static void read_record(struct reading *reading)
{
    struct record_reading *r = container_of(reading, struct record_reading, reading);
    const struct call_logs *logs = &r->store->calls;
    int64_t oldest = clock_wall_ns() - logs->opts.keep_s * 1000000000LL;
    call_files_read(logs, r->id, oldest, r->after, RECORD_BYTES, &r->lines, &r->owner, &r->err);
}

static void answer(struct record_reading *r, struct http_request *req)
{
    const char *owner = json_string_value(r->owner);
    bool is_foreign = sandbox_id_is_foreign(r->id, r->store->node);
    if (err_is(&r->err) && is_foreign && !api_find(r->store, req, r->id))
        return; // it said which node has it
    if (err_is(&r->err))
        reply_err(req, "no_record", &r->err);
    else if (!r->is_seen && !api_keys_sees(r->store->api_keys, req, owner))
        reply_error(req, 404, "sandbox_not_found",
                    "Sandbox \"%.80s\" doesn't exist or you don't have access to it", r->id);
    else
        http_respond(req, 200, RECORD_TYPE, buf_str(&r->lines), r->lines.len);
}

static void on_read(struct reading *reading)
{
    struct record_reading *r = container_of(reading, struct record_reading, reading);
    size_t bytes = r->lines.len;
    if (reading->req) {
        http_request_on_close(reading->req, NULL, NULL);
        answer(r, reading->req);
    }
    buf_fini(&r->lines);
    json_decref(r->owner);
    free(r->id);
    free(reading->owner);
    free(r);
    mem_give_back(bytes);
}

static int read_after(struct http_request *req, int64_t *after, struct err *e)
{
    static const char *const KNOWN[] = {"after"};
    const char *other = http_request_query_other(req, KNOWN, ARRAY_LEN(KNOWN));
    const char *text = http_request_query(req, "after", NULL);
    if (other)
        return err_set(e, ERR_INVALID, "unknown parameter \"%.40s\": the record takes after=N",
                       other);
    if (text && !str_to_int(text, 0, INT64_MAX, after))
        return err_set(e, ERR_INVALID, "after must be the number of a line, from 0 on");
    return 0;
}

// A sandbox that exists is found as for any other request. Of one that has ended, the log itself
// tells the owner: also of one that was made on another node and ended here.
int api_record(struct api_call *c, struct err *e)
{
    struct events *events = &c->store->events;
    const char *caller = api_keys_caller(c->store->api_keys, c->req);
    char *id auto_free = xstrndup(c->arg, sandbox_id_len(c->arg));
    struct sandbox *sb = store_find_any(c->store, id);
    int64_t after = 0;
    if (sb && !api_find(c->store, c->req, id))
        return 0;
    if (!sb && !sandbox_id_is_valid(id)) {
        api_find(c->store, c->req, c->arg); // which says what is wrong
        return 0;
    }
    if (read_after(c->req, &after, e) < 0)
        return -1;
    c->error_code = "too_many_readings";
    if (readings_check(&events->readings, caller, e) < 0)
        return -1;
    if (sb)
        usage_note_network(sb, USAGE_NOTE_LOOK);
    struct record_reading *r = xcalloc(1, sizeof *r);
    r->store = c->store;
    r->id = steal(&id);
    r->after = after;
    r->is_seen = sb;
    r->reading.owner = caller ? xstrdup(caller) : NULL;
    r->reading.read = read_record;
    r->reading.done = on_read;
    reply_later(c->req, &r->reading.req);
    readings_add(&events->readings, &r->reading);
    return 0;
}

// ---- 2. requests that change a sandbox

// How much of a body the line can still take.
struct telling {
    const struct call_place *place;
    size_t left; // bytes of texts
    bool cut;
};

// New reference, or NULL: it is not told.
static json_t *told(struct telling *t, const json_t *value)
{
    if (!json_is_string(value))
        return json_is_integer(value) || json_is_boolean(value) ? json_deep_copy(value) : NULL;
    json_t *text =
        call_text(t->place, json_string_value(value), json_string_length(value), t->left, &t->cut);
    t->left -= json_string_length(text) < t->left ? json_string_length(text) : t->left;
    return text;
}

static json_t *told_list(struct telling *t, const json_t *list)
{
    json_t *copy = json_array();
    for (size_t i = 0; i < json_array_size(list) && i < LIST_MAX && t->left; i++) {
        json_t *one = told(t, json_array_get(list, i));
        if (one)
            json_array_append_new(copy, one);
    }
    t->cut = t->cut || json_array_size(copy) < json_array_size(list);
    return copy;
}

// Members of the bodies that are told. Others may hold a secret, as network.rules does. The source
// of a mount is a path of the host, which the owner of a key must not learn from the operator.
static void copy_body(const struct call_place *p, const json_t *body, json_t *line)
{
    static const char *const TOLD[] = {"port",     "hostPort", "protocol", "timeout", "count",
                                       "snapshot", "target",   "readOnly", "mode",    "allow",
                                       "deny",     "allowOut", "denyOut",  "memory",  "source"};
    struct telling telling = {p, BODY_BYTES, false};
    for (size_t i = 0; i < ARRAY_LEN(TOLD); i++) {
        const json_t *value = json_object_get(body, TOLD[i]);
        if (p->owner && str_eq(TOLD[i], "source"))
            continue;
        json_t *copy = json_is_array(value) ? told_list(&telling, value) : told(&telling, value);
        if (copy)
            json_object_set_new(line, TOLD[i], copy);
    }
    if (telling.cut)
        json_object_set_new(line, "cut", json_true());
}

void api_note_change(const struct api_call *c, const char *method, const char *pattern)
{
    const char *at = strstr(pattern, SANDBOXES);
    if (!c->sb || !at || str_eq(method, "GET"))
        return;
    const struct call_place place = sandbox_calls(c->sb);
    const char *what = at + strlen(SANDBOXES);
    const char *agent = http_request_header(c->req, "User-Agent");
    const char *peer = http_request_peer(c->req);
    char *who auto_free = api_keys_who(c->store->api_keys, c->req);
    json_t *line = json_pack("{s:s, s:s, s:s}", "kind", "request", "what",
                             *what ? what + 1 : "kill", "who", who);
    if (*what && str_eq(method, "DELETE"))
        json_object_set_new(line, "removes", json_true());
    if (!str_eq(peer, "unix"))
        json_object_set_new(line, "from", json_string(peer));
    call_set_text(&place, line, "client", agent, AGENT_BYTES);
    copy_body(&place, c->body, line);
    call_log_add(&place, line);
}
