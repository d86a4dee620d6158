// SPDX-License-Identifier: Apache-2.0
// The issuer's keys, from a URL or a file.
#include "mcp-server/auth/key_source.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "mcp-server/auth/jwks.h"
#include "mcp-server/config/secure_url.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"
#include "sandbox-backend/net/http_client.h"
#include "sandbox-backend/net/listen_address.h"

#define OLD_MS     600000 // keys of this age are fetched again
#define AGAIN_MS   30000  // between fetches for an unknown key; after a failed fetch of old keys
#define FAILED_MS  5000   // between a failed fetch and the next one that a token asks for
#define LOOK_MS    1000   // between two looks at a file
#define CONNECT_MS 5000
#define TOTAL_MS   10000
#define HTTP_OK    200
#define LOCATIONS  3 // URLs at which the metadata may be

enum source_stage { SOURCE_IDLE, SOURCE_METADATA, SOURCE_KEYS };

struct key_source {
    uv_loop_t *loop;
    char *issuer;  // owned
    char *file;    // owned; NULL when the keys come from a URL
    char *url;     // owned; of the keys; NULL while unknown
    bool is_given; // the user named the URL or the file
    void (*on_news)(void *ctx);
    void *ctx;
    json_t *keys; // owned; NULL until keys were read
    uint64_t generation;
    int64_t asked_ms;  // the last fetch, or the last look at the file
    int64_t wanted_ms; // the last fetch for an unknown key
    bool has_wanted, has_failed;
    struct file_stamp stamp;
    // The fetch that is in progress.
    enum source_stage stage;
    int location;               // of the metadata: the number of URLs that failed
    bool is_plain;              // over http, to a loopback address only
    struct http_client *client; // NULL until the first fetch
    struct http_fetch *fetch;
    struct buf body;
    int status;
    bool is_too_long, is_closing;
};

static int start_metadata(struct key_source *s);
static int start_keys(struct key_source *s);
static void finish(struct key_source *s, const struct err *e);

static void set_stage(struct key_source *s, enum source_stage next)
{
    static const unsigned ALLOWED[] = {
        [SOURCE_IDLE] = 1U << SOURCE_METADATA | 1U << SOURCE_KEYS,
        [SOURCE_METADATA] = 1U << SOURCE_METADATA | 1U << SOURCE_KEYS | 1U << SOURCE_IDLE,
        [SOURCE_KEYS] = 1U << SOURCE_IDLE,
    };
    assert(ALLOWED[s->stage] & 1U << next);
    s->stage = next;
}

// ---- 1. a file

// Replace the keys by `keys`, which the source then owns. Return -1 for NULL.
static int replace_keys(struct key_source *s, json_t *keys)
{
    if (!keys)
        return -1;
    s->generation += !json_equal(keys, s->keys);
    json_decref(s->keys);
    s->keys = keys;
    return 0;
}

static int read_keys(struct key_source *s, struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    file_stamp_get(s->file, &s->stamp);
    if (file_read(s->file, JWKS_BYTES_MAX, &text, e) < 0)
        return err_wrap(e, "key file");
    if (replace_keys(s, jwks_parse(buf_str(&text), text.len, e)) < 0)
        return err_wrap(e, "key file %s", s->file);
    return 0;
}

static void look_at_file(struct key_source *s, int64_t now_ms)
{
    struct file_stamp stamp;
    struct err e = ERR_INIT;
    if (now_ms - s->asked_ms < LOOK_MS)
        return;
    s->asked_ms = now_ms;
    file_stamp_get(s->file, &stamp);
    if (!file_stamp_equal(&stamp, &s->stamp) && read_keys(s, &e) < 0)
        log_error("keys.unreadable", "error=\"%s\"", e.msg);
}

// ---- 2. fetching

static void on_head(int status, const struct http_header *headers, size_t count, const char *url,
                    void *ctx)
{
    (void)headers, (void)count, (void)url;
    ((struct key_source *)ctx)->status = status;
}

static bool on_data(const char *data, size_t len, void *ctx)
{
    struct key_source *s = ctx;
    if (!s->is_too_long && !buf_try_add(&s->body, data, len, JWKS_BYTES_MAX)) {
        s->is_too_long = true;
        http_fetch_cancel(s->fetch);
    }
    return true;
}

// Allow http to loopback addresses only, whatever the name resolves to.
static bool allow_address(const struct sockaddr *address, void *ctx)
{
    const struct key_source *s = ctx;
    return !s->is_plain || listen_address_is_loopback((const struct sockaddr_storage *)address);
}

static void on_end(const struct err *failure, void *ctx);

static int fetch(struct key_source *s, const char *url)
{
    static const struct http_header ACCEPT = {"Accept", "application/json"};
    static const struct http_fetch_events EVENTS = {
        .on_head = on_head, .on_data = on_data, .on_end = on_end};
    const struct http_fetch_opts opts = {
        .method = "GET",
        .url = url,
        .headers = &ACCEPT,
        .header_count = 1,
        .connect_timeout_ms = CONNECT_MS,
        .total_timeout_ms = TOTAL_MS,
        .allow_address = allow_address,
    };
    if (!s->client)
        s->client = http_client_new(s->loop);
    buf_clear(&s->body);
    s->status = 0;
    s->is_too_long = false;
    s->is_plain = secure_url_is_plain(url);
    s->fetch = http_fetch_start(s->client, &opts, &EVENTS, s);
    return 0;
}

// ---- 3. the metadata, which has the URL of the keys

// Return the URL to try now, in the order of MCP 2025-11-25, basic/authorization: that of RFC 8414,
// then those of OpenID Connect with the issuer's path at the end and at the beginning. New string.
static char *metadata_url(const struct key_source *s)
{
    char *origin auto_free = secure_url_origin(s->issuer);
    const char *path = secure_url_path(s->issuer);
    int len = (int)strlen(path);
    if (len > 0 && path[len - 1] == '/')
        len--;
    if (s->location == 0)
        return str_printf("%s/.well-known/oauth-authorization-server%.*s", origin, len, path);
    if (s->location == 1)
        return str_printf("%s/.well-known/openid-configuration%.*s", origin, len, path);
    return str_printf("%s%.*s/.well-known/openid-configuration", origin, len, path);
}

static int start_metadata(struct key_source *s)
{
    char *url auto_free = metadata_url(s);
    set_stage(s, SOURCE_METADATA);
    return fetch(s, url);
}

static int take_metadata(struct key_source *s, struct err *e)
{
    const char *issuer;
    const char *url;
    json_t *document = json_parse(buf_str(&s->body), s->body.len, e);
    if (document && json_get_string(document, "issuer", &issuer, "", e) == 0 &&
        json_get_string(document, "jwks_uri", &url, "", e) == 0) {
        if (!str_eq(issuer, s->issuer)) // RFC 8414, 3.3
            err_set(e, ERR_INVALID, "the metadata names another issuer, \"%.120s\"", issuer);
        else if (!secure_url_check(url))
            err_set(e, ERR_INVALID, "jwks_uri must be an https URL, not \"%.120s\"", url);
        else
            s->url = xstrdup(url);
    }
    json_decref(document);
    return s->url ? 0 : -1;
}

// ---- 4. the keys

static int start_keys(struct key_source *s)
{
    set_stage(s, SOURCE_KEYS);
    return fetch(s, s->url);
}

static int take_answer(struct key_source *s, struct err *e)
{
    if (s->is_too_long)
        return err_set(e, ERR_TOO_LARGE, "the response is larger than %d bytes", JWKS_BYTES_MAX);
    if (s->status != HTTP_OK)
        return err_set(e, ERR_UNAVAILABLE, "the server returned HTTP status %d", s->status);
    if (s->stage == SOURCE_METADATA)
        return take_metadata(s, e);
    return replace_keys(s, jwks_parse(buf_str(&s->body), s->body.len, e));
}

static void on_end(const struct err *failure, void *ctx)
{
    struct key_source *s = ctx;
    struct err e = ERR_INIT;
    s->fetch = NULL;
    if (s->is_closing)
        return;
    if (failure && !s->is_too_long)
        err_set(&e, failure->code, "%s", failure->msg);
    else
        take_answer(s, &e);
    if (s->stage == SOURCE_METADATA && err_is(&e) && ++s->location < LOCATIONS)
        start_metadata(s);
    else if (s->stage == SOURCE_METADATA && !err_is(&e))
        start_keys(s);
    else
        finish(s, &e);
}

static void finish(struct key_source *s, const struct err *e)
{
    if (err_is(e))
        log_warn("keys.unavailable", "issuer=%s url=%s error=\"%s\"", s->issuer,
                 s->url ? s->url : "-", e->msg);
    else
        log_info("keys.read", "issuer=%s count=%zu", s->issuer, json_array_size(s->keys));
    s->has_failed = err_is(e);
    if (s->has_failed && !s->is_given) { // the keys may have moved: read the metadata again
        free(s->url);
        s->url = NULL;
    }
    set_stage(s, SOURCE_IDLE);
    s->asked_ms = clock_mono_ms();
    buf_fini(&s->body);
    s->on_news(s->ctx);
}

static void start(struct key_source *s)
{
    if (s->stage != SOURCE_IDLE)
        return;
    s->location = 0;
    if (s->url)
        start_keys(s);
    else
        start_metadata(s);
}

// ---- 5. asking for keys

const json_t *key_source_keys(struct key_source *s, int64_t now_ms)
{
    if (s->file)
        look_at_file(s, now_ms);
    else if (s->keys && now_ms - s->asked_ms >= (s->has_failed ? AGAIN_MS : OLD_MS))
        start(s);
    return s->keys;
}

uint64_t key_source_generation(const struct key_source *s)
{
    return s->generation;
}

static bool is_too_early(const struct key_source *s, int64_t now_ms)
{
    if (s->has_failed)
        return now_ms - s->asked_ms < FAILED_MS;
    return s->has_wanted && now_ms - s->wanted_ms < AGAIN_MS;
}

enum key_source_state key_source_want(struct key_source *s, int64_t now_ms, bool may_start,
                                      int *retry_s)
{
    *retry_s = 0;
    if (s->file)
        return KEYS_NEWEST;
    if (s->stage != SOURCE_IDLE)
        return KEYS_COMING;
    if (!may_start || is_too_early(s, now_ms)) {
        if (s->has_failed)
            *retry_s = (int)((s->asked_ms + FAILED_MS - now_ms + 999) / 1000);
        return s->has_failed ? KEYS_DOWN : KEYS_NEWEST;
    }
    if (s->keys) { // the first fetch does not count: no unknown key caused it
        s->has_wanted = true;
        s->wanted_ms = now_ms;
    }
    start(s);
    return KEYS_COMING;
}

static void source_free(struct key_source *s)
{
    json_decref(s->keys);
    buf_fini(&s->body);
    free(s->issuer);
    free(s->file);
    free(s->url);
    free(s);
}

struct key_source *key_source_new(uv_loop_t *loop, const char *issuer, const char *where,
                                  void (*on_news)(void *ctx), void *ctx, struct err *e)
{
    struct key_source *s = xcalloc(1, sizeof *s);
    s->loop = loop;
    s->issuer = xstrdup(issuer);
    s->on_news = on_news;
    s->ctx = ctx;
    s->is_given = where != NULL;
    if (where && strstr(where, "://"))
        s->url = xstrdup(where);
    else if (where)
        s->file = xstrdup(where);
    s->asked_ms = clock_mono_ms();
    if (!s->file || read_keys(s, e) == 0)
        return s;
    source_free(s);
    return NULL;
}

struct source_closing {
    struct key_source *source;
    void (*on_closed)(void *ctx);
    void *ctx;
};

static void on_client_closed(void *ctx)
{
    struct source_closing closing = *(struct source_closing *)ctx;
    free(ctx);
    source_free(closing.source);
    closing.on_closed(closing.ctx);
}

void key_source_close(struct key_source *s, void (*on_closed)(void *ctx), void *ctx)
{
    struct source_closing *closing = xmalloc(sizeof *closing);
    *closing = (struct source_closing){s, on_closed, ctx};
    s->is_closing = true;
    if (!s->client)
        s->client =
            http_client_new(s->loop); // closed at once, so that on_closed comes from the loop
    http_client_close(s->client, on_client_closed, closing);
}
