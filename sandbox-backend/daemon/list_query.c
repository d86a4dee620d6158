// SPDX-License-Identifier: Apache-2.0
// The query of a list request: filters, order, page. Pure.
#include "sandbox-backend/daemon/list_query.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/sandbox.h"

static int has_nul(struct err *e)
{
    return err_set(e, ERR_INVALID, "metadata: it holds a NUL");
}

static int add_pair(json_t *out, const char *pair, size_t len, struct err *e)
{
    const char *equals = memchr(pair, '=', len);
    if (!equals || memchr(equals + 1, '=', len - (size_t)(equals + 1 - pair)))
        return err_set(e, ERR_INVALID, "metadata: \"%.*s\" is not of the form key=value",
                       (int)(len < 80 ? len : 80), pair);
    size_t before = (size_t)(equals - pair);
    size_t key_len = 0, value_len = 0;
    char *key auto_free = percent_decode(pair, before, true, &key_len);
    char *value auto_free = percent_decode(equals + 1, len - before - 1, true, &value_len);
    json_t *text = json_string(value); // NULL for what is not UTF-8
    if (!text || json_object_set_new(out, key, text) < 0)
        return err_set(e, ERR_INVALID, "metadata: it is not UTF-8");
    return strlen(key) == key_len && strlen(value) == value_len ? 0 : has_nul(e);
}

json_t *list_query_metadata(const char *text, struct err *e)
{
    size_t whole = 0;
    char *pairs auto_free = percent_decode(text, strlen(text), true, &whole);
    if (strlen(pairs) != whole) {
        has_nul(e);
        return NULL;
    }
    json_t *out = json_object();
    for (const char *at = pairs; *at;) {
        size_t len = strcspn(at, "&");
        if (add_pair(out, at, len, e) < 0) {
            json_decref(out);
            return NULL;
        }
        at += len;
        at += *at == '&';
    }
    return out;
}

static int parse_states(struct list_query *q, const char *states, struct err *e)
{
    q->running = q->paused = !states || !*states;
    for (const char *at = states; at && *at;) {
        size_t len = strcspn(at, ",");
        if (len == 7 && strncmp(at, "running", len) == 0)
            q->running = true;
        else if (len == 6 && strncmp(at, "paused", len) == 0)
            q->paused = true;
        else
            return err_set(e, ERR_INVALID, "state must be running, paused, or both");
        at += len;
        at += *at == ',';
    }
    return 0;
}

// base64url of "<started>__<id>"
static int parse_cursor(struct list_query *q, const char *token, struct err *e)
{
    struct buf plain auto_buf = BUF_INIT;
    if (!token || !*token)
        return 0;
    long long ns = 0;
    int used = 0;
    if (!base64_decode(&plain, token, strlen(token)) ||
        sscanf(buf_str(&plain), "%lld__%20[a-z0-9]%n", &ns, q->cursor_id, &used) != 2 ||
        (size_t)used != plain.len)
        return err_set(e, ERR_INVALID, "nextToken is not one that this server gave out");
    q->cursor_ns = ns;
    q->has_cursor = true;
    return 0;
}

static int parse_page(struct list_query *q, struct http_request *req, struct err *e)
{
    const char *order = http_request_query(req, "order", NULL);
    const char *limit = http_request_query(req, "limit", NULL);
    const char *after = http_request_query(req, "startedAfter", NULL);
    q->template = http_request_query(req, "template", NULL);
    q->ascending = str_eq(order, "asc");
    if (order && !q->ascending && strcmp(order, "desc") != 0)
        return err_set(e, ERR_INVALID, "order must be asc or desc");
    if (limit && !str_to_int(limit, 1, LIST_LIMIT_MAX, &q->limit))
        return err_set(e, ERR_INVALID, "limit must be from 1 to %d", LIST_LIMIT_MAX);
    if (after && !clock_parse_rfc3339(after, &q->after_ns))
        return err_set(e, ERR_INVALID, "startedAfter must be an RFC 3339 time");
    if (parse_states(q, http_request_query(req, "state", NULL), e) < 0)
        return -1;
    bool bad = false;
    const char *token = http_request_query(req, "nextToken", &bad);
    return parse_cursor(q, bad ? "\xff" : token, e); // with a NUL it is none of ours
}

int list_query_parse(struct list_query *q, struct http_request *req, bool v2, struct err *e)
{
    *q = (struct list_query){.running = true, .after_ns = INT64_MIN, .limit = LIST_LIMIT_MAX};
    if (!v2)
        q->limit = INT64_MAX;
    bool bad = false;
    const char *metadata = http_request_query(req, "metadata", &bad);
    if (bad)
        return has_nul(e);
    if (metadata && !(q->metadata = list_query_metadata(metadata, e)))
        return -1;
    return v2 ? parse_page(q, req, e) : 0;
}

void list_query_fini(struct list_query *q)
{
    json_decref(q->metadata);
    q->metadata = NULL;
}

static int compare(int64_t a_ns, const char *a_id, int64_t b_ns, const char *b_id)
{
    if (a_ns != b_ns)
        return a_ns < b_ns ? -1 : 1;
    return strcmp(a_id, b_id);
}

bool list_query_before(const struct list_query *q, const struct sandbox *a, const struct sandbox *b)
{
    int order = compare(a->started_ns, a->id, b->started_ns, b->id);
    return q->ascending ? order < 0 : order > 0;
}

bool list_query_matches(const struct list_query *q, const struct sandbox *sb)
{
    const char *key;
    json_t *value;
    if (!sandbox_is_known(sb) || !(sandbox_shows_running(sb) ? q->running : q->paused) ||
        sb->started_ns <= q->after_ns)
        return false;
    if (q->template && strcmp(q->template, sb->template) != 0 && !str_eq(q->template, sb->snapshot))
        return false;
    if (q->has_cursor) {
        int order = compare(sb->started_ns, sb->id, q->cursor_ns, q->cursor_id);
        if (q->ascending ? order <= 0 : order >= 0)
            return false;
    }
    json_object_foreach(q->metadata, key, value)
    {
        if (!json_equal(json_object_get(sb->metadata, key), value))
            return false;
    }
    return true;
}

char *list_query_token(const struct sandbox *last)
{
    struct buf coded auto_buf = BUF_INIT;
    char *plain auto_free = str_printf("%lld__%s", (long long)last->started_ns, last->id);
    base64url_encode(&coded, plain, strlen(plain));
    return buf_take(&coded);
}
