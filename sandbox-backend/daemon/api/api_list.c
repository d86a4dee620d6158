// SPDX-License-Identifier: Apache-2.0
// GET /sandboxes and /v2/sandboxes, and the pages of every list.
#include "sandbox-backend/daemon/api/api_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/api/api.h"
#include "sandbox-backend/daemon/api/api_merge.h"
#include "sandbox-backend/daemon/http/api_keys.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/daemon/sandbox/templates.h"

// ---- 1. pages

// A token is base64url of "<time>__<id>".
static bool read_token(struct page *p, const char *token)
{
    static const char LETTERS[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
    struct buf plain auto_buf = BUF_INIT;
    int used = 0;
    if (!base64_decode(&plain, token, strlen(token)) ||
        sscanf(buf_str(&plain), "%lld__%n", &p->cursor_ns, &used) != 1 || !used)
        return false;
    const char *id = plain.data + used;
    size_t len = strspn(id, LETTERS);
    if (!len || len > PAGE_ID_MAX || (size_t)used + len != plain.len)
        return false;
    snprintf(p->cursor_id, sizeof p->cursor_id, "%s", id);
    return true;
}

int page_parse(struct page *p, struct http_request *req, struct err *e)
{
    bool bad = false;
    const char *limit = http_request_query(req, "limit", NULL);
    const char *token = http_request_query(req, "nextToken", &bad);
    p->limit = PAGE_LIMIT_MAX;
    p->has_cursor = token && *token;
    if (limit && !str_to_int(limit, 1, PAGE_LIMIT_MAX, &p->limit))
        return err_set(e, ERR_INVALID, "limit must be from 1 to %d", PAGE_LIMIT_MAX);
    if (bad || (token && p->has_cursor && !read_token(p, token)))
        return err_set(e, ERR_INVALID, "nextToken is invalid: send one that this server returned");
    return 0;
}

bool page_is_before(const struct page *p, int64_t a_ns, const char *a_id, int64_t b_ns,
                    const char *b_id)
{
    bool less = a_ns != b_ns ? a_ns < b_ns : strcmp(a_id, b_id) < 0;
    bool equal = a_ns == b_ns && strcmp(a_id, b_id) == 0;
    return !equal && less == p->ascending;
}

bool page_has_begun(const struct page *p, int64_t ns, const char *id)
{
    return !p->has_cursor || page_is_before(p, p->cursor_ns, p->cursor_id, ns, id);
}

char *page_token(int64_t ns, const char *id)
{
    struct buf coded auto_buf = BUF_INIT;
    char *plain auto_free = str_printf("%lld__%s", (long long)ns, id);
    base64url_encode(&coded, plain, strlen(plain));
    return buf_take(&coded);
}

void page_tell_next(struct http_request *req, int64_t ns, const char *id)
{
    char *token auto_free = page_token(ns, id);
    http_response_header(req, "X-Next-Token", token);
}

// ---- 2. the query
static int has_nul(struct err *e)
{
    return err_set(e, ERR_INVALID, "metadata contains a NUL byte");
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
    json_t *text = json_string(value); // NULL: not UTF-8
    if (!text || json_object_set_new(out, key, text) < 0)
        return err_set(e, ERR_INVALID, "metadata is not UTF-8");
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

// Read the parameters that only /v2/sandboxes has.
static int parse_v2(struct list_query *q, struct http_request *req, struct err *e)
{
    const char *order = http_request_query(req, "order", NULL);
    const char *after = http_request_query(req, "startedAfter", NULL);
    q->template = http_request_query(req, "template", NULL);
    q->page.ascending = str_eq(order, "asc");
    if (order && !q->page.ascending && strcmp(order, "desc") != 0)
        return err_set(e, ERR_INVALID, "order must be asc or desc");
    if (after && !clock_parse_rfc3339(after, &q->after_ns))
        return err_set(e, ERR_INVALID, "startedAfter must be an RFC 3339 time");
    if (parse_states(q, http_request_query(req, "state", NULL), e) < 0)
        return -1;
    return page_parse(&q->page, req, e);
}

// v1 has only the parameter `metadata`. It has no pages and shows no paused sandbox.
static int parse_query(struct list_query *q, struct http_request *req, bool v2, struct err *e)
{
    bool bad = false;
    const char *metadata = http_request_query(req, "metadata", &bad);
    *q = (struct list_query){.running = true, .after_ns = INT64_MIN, .page.limit = INT64_MAX};
    if (bad)
        return has_nul(e);
    if (metadata && !(q->metadata = list_query_metadata(metadata, e)))
        return -1;
    return v2 ? parse_v2(q, req, e) : 0;
}

bool list_query_matches(const struct list_query *q, const struct sandbox *sb)
{
    const char *key;
    json_t *value;
    if (!sandbox_is_known(sb) || !(sandbox_shows_running(sb) ? q->running : q->paused) ||
        sb->started_ns < q->after_ns || !page_has_begun(&q->page, sb->started_ns, sb->id))
        return false;
    if (q->template && strcmp(q->template, sb->template) != 0 &&
        !str_eq(q->template, sb->snapshot) &&
        !(q->name && str_eq(q->name, templates_shown(sb->store, sb->template))))
        return false;
    json_object_foreach (q->metadata, key, value) {
        if (!json_equal(json_object_get(sb->metadata, key), value))
            return false;
    }
    return true;
}

// ---- 3. the answer
struct found {
    const struct sandbox *sb;
};

static int by_page(const void *a, const void *b, void *page)
{
    const struct sandbox *left = ((const struct found *)a)->sb;
    const struct sandbox *right = ((const struct found *)b)->sb;
    return page_is_before(page, left->started_ns, left->id, right->started_ns, right->id) ? -1 : 1;
}

static void answer(const struct store *store, struct http_request *req, struct list_query *q)
{
    struct found *found auto_free = xcalloc(store->count + 1, sizeof *found);
    int64_t count = 0, running = 0;
    for (struct sandbox *sb = store_first(store); sb; sb = store_next(sb)) {
        if (!api_keys_sees(store->api_keys, req, sb->owner))
            continue;
        running += sandbox_shows_running(sb);
        if (list_query_matches(q, sb))
            found[count++].sb = sb;
    }
    qsort_r(found, (size_t)count, sizeof *found, by_page, &q->page);
    json_t *list = json_array();
    for (int64_t i = 0; i < count && i < q->page.limit; i++)
        json_array_append_new(list, view_listed(found[i].sb));
    const struct api_merged_list how = {.id = "sandboxID",
                                        .time = "startedAt",
                                        .page = q->page,
                                        .more = count > q->page.limit,
                                        .running = running};
    api_merge_list(store, req, list, &how);
}

int api_list(struct api_call *c, struct err *e)
{
    struct list_query q;
    int rc = parse_query(&q, c->req, c->v2, e);
    if (rc == 0) {
        // The template may be named by an alias. An unknown name matches no sandbox.
        char *template auto_free = q.template ? templates_resolve(c->store, q.template) : NULL;
        q.name = q.template;
        if (template)
            q.template = template;
        answer(c->store, c->req, &q);
    }
    json_decref(q.metadata);
    return rc;
}
