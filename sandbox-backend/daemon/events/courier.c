// SPDX-License-Identifier: Apache-2.0
// Couriers.
#include "sandbox-backend/daemon/events/courier.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/keys/sha256.h"
#include "sandbox-backend/log/log.h"
#include "sandbox-backend/net/deadline.h"
#include "sandbox-backend/net/http_client.h"

#define DELIVERY_ID_BYTES 16

struct parcel {
    STAILQ_ENTRY(parcel) link;
    size_t len;
    char body[];
};

struct courier {
    LIST_ENTRY(courier) link;
    struct couriers *all;
    char *id, *url, *secret; // owned
    bool goes_anywhere;
    bool closing;
    STAILQ_HEAD(, parcel) queue; // the first is under way, or is tried again
    size_t count, bytes;         // in the queue
    int tries;                   // of the first
    int status;                  // of the answer; 0: none yet
    struct http_fetch *fetch;    // NULL: none under way
    struct deadline again;
};

static void deliver(struct courier *c);

void couriers_init(struct couriers *all, uv_loop_t *loop, const struct fetch_guard *guard)
{
    *all = (struct couriers){.loop = loop, .guard = *guard};
    LIST_INIT(&all->all);
}

void couriers_close(struct couriers *all)
{
    while (!LIST_EMPTY(&all->all))
        courier_close(LIST_FIRST(&all->all));
}

// ---- the target
static void free_target(struct courier *c)
{
    free(c->id);
    free(c->url);
    free(c->secret);
}

void courier_aim(struct courier *c, const struct courier_target *to)
{
    free_target(c);
    c->id = xstrdup(to->id);
    c->url = xstrdup(to->url);
    c->secret = xstrdup(to->secret);
    c->goes_anywhere = to->goes_anywhere;
}

static void on_again(struct deadline *d)
{
    deliver(container_of(d, struct courier, again));
}

struct courier *courier_new(struct couriers *all, const struct courier_target *to)
{
    struct courier *c = xcalloc(1, sizeof *c);
    c->all = all;
    STAILQ_INIT(&c->queue);
    deadline_init(&c->again, all->loop, on_again);
    courier_aim(c, to);
    LIST_INSERT_HEAD(&all->all, c, link);
    return c;
}

// ---- the queue
static void drop_first(struct courier *c)
{
    struct parcel *first = STAILQ_FIRST(&c->queue);
    STAILQ_REMOVE_HEAD(&c->queue, link);
    c->count--;
    c->bytes -= first->len;
    c->tries = 0;
    free(first);
}

void courier_send(struct courier *c, const char *body, size_t len)
{
    if (c->count >= COURIER_QUEUE || c->bytes + len > COURIER_BYTES) {
        log_warn("webhook.full", "id=%s waiting=%zu: an event is lost", c->id, c->count);
        return;
    }
    struct parcel *p = xmalloc(sizeof *p + len);
    p->len = len;
    memcpy(p->body, body, len);
    STAILQ_INSERT_TAIL(&c->queue, p, link);
    c->bytes += len;
    if (c->count++ == 0)
        deadline_arm(&c->again, 0); // from the loop: no answer may come inside this call
}

// ---- the end
static void on_closed(struct deadline *d)
{
    struct courier *c = container_of(d, struct courier, again);
    while (!STAILQ_EMPTY(&c->queue))
        drop_first(c);
    free_target(c);
    free(c);
}

void courier_close(struct courier *c)
{
    struct couriers *all = c->all;
    c->closing = true;
    LIST_REMOVE(c, link);
    if (c->fetch)
        http_fetch_cancel(c->fetch); // on_end closes it
    else
        deadline_close(&c->again, on_closed);
    if (LIST_EMPTY(&all->all) && all->http)
        http_client_close(steal(&all->http), NULL, NULL);
}

// ---- a delivery
static void on_head(int status, const struct http_header *headers, size_t count, const char *url,
                    void *ctx)
{
    (void)headers, (void)count, (void)url;
    ((struct courier *)ctx)->status = status;
}

static bool on_data(const char *data, size_t len, void *ctx)
{
    (void)data, (void)len, (void)ctx; // nobody reads the answer
    return true;
}

static bool allow_address(const struct sockaddr *address, void *ctx)
{
    const struct courier *c = ctx;
    return c->goes_anywhere || fetch_guard_allows(&c->all->guard, address);
}

static void on_end(const struct err *e, void *ctx)
{
    struct courier *c = ctx;
    c->fetch = NULL;
    if (c->closing) {
        deadline_close(&c->again, on_closed);
        return;
    }
    bool arrived = !e && c->status >= 200 && c->status < 300;
    if (!arrived)
        log_warn("webhook.tried", "id=%s try=%d status=%d error=\"%s\"", c->id, c->tries, c->status,
                 e ? e->msg : "");
    if (!arrived && c->tries <= COURIER_RETRIES) {
        deadline_arm(&c->again, COURIER_RETRY_MS);
        return;
    }
    drop_first(c);
    if (c->count > 0)
        deadline_arm(&c->again, 0);
}

// Sign as E2B does: the SHA-256 of the secret and the body, in URL-safe base64 without padding.
static char *sign(const char *secret, const struct parcel *p)
{
    struct buf out auto_buf = BUF_INIT;
    struct sha256 digest;
    struct sha256_stream *hash = sha256_begin();
    sha256_add(hash, secret, strlen(secret));
    sha256_add(hash, p->body, p->len);
    sha256_end(hash, &digest);
    base64url_encode(&out, digest.bytes, sizeof digest.bytes);
    return xstrdup(buf_str(&out));
}

static void deliver(struct courier *c)
{
    static const struct http_fetch_events EVENTS = {
        .on_head = on_head, .on_data = on_data, .on_end = on_end};
    const struct parcel *p = STAILQ_FIRST(&c->queue);
    char *signature auto_free = sign(c->secret, p);
    char *delivery auto_free = random_hex(DELIVERY_ID_BYTES);
    const struct http_header headers[] = {{"Content-Type", "application/json"},
                                          {"e2b-webhook-id", c->id},
                                          {"e2b-delivery-id", delivery},
                                          {"e2b-signature-version", "v1"},
                                          {"e2b-signature", signature}};
    const struct http_fetch_opts opts = {.method = "POST",
                                         .url = c->url,
                                         .headers = headers,
                                         .header_count = ARRAY_LEN(headers),
                                         .body = p->body,
                                         .body_len = p->len,
                                         .total_timeout_ms = COURIER_MS,
                                         .allow_address = allow_address};
    if (!c->all->http)
        c->all->http = http_client_new(c->all->loop);
    c->tries++;
    c->status = 0;
    c->fetch = http_fetch_start(c->all->http, &opts, &EVENTS, c);
}
