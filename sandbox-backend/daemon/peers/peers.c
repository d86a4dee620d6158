// SPDX-License-Identifier: Apache-2.0
// The peers of this node.
#include "sandbox-backend/daemon/peers/peers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/nodes_file.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"
#include "sandbox-backend/net/http_client.h"

#define HEADERS_MAX 4
// A node that was moved may still have templates, snapshots and volumes, or be switched off. So it
// is asked for a shorter time, and one that gave no answer is left alone for a while.
#define MOVED_MS       500
#define MOVED_QUIET_MS 60000

struct question; // to all peers

struct ask { // one peer's part of it
    struct question *q;
    struct peers *p;
    struct http_fetch *fetch;        // NULL once it has ended
    char answers[NODE_NAME_MAX + 1]; // the name that the peer gives itself; "": none
    char name[NODE_NAME_MAX + 1];
    int64_t *quiet_until_ms; // of a node that was moved; else NULL. Borrowed
    int status;
    bool more;
    int64_t running;
    struct buf body;
};

struct question {
    LIST_ENTRY(question) link;
    struct http_request *req; // NULL once the client has gone
    peers_cb cb;
    void (*on_gone)(void *ctx);
    void *ctx;
    size_t count, pending;
    json_t *bodies; // owned
    struct peers_sum sum;
    struct buf missing;
    struct ask asks[];
};

struct peers {
    struct peers_opts opts; // borrowed strings
    struct http_client *http;
    struct nodes nodes;
    int64_t quiet_until_ms[NODES_MAX]; // of nodes.all
    struct file_stamp stamp;
    char misnamed[NODE_NAME_MAX + 1]; // the last node that was logged as another one
    LIST_HEAD(, question) questions;
};

// ---- 1. the list of nodes
static int check_nodes(const struct peers_opts *o, const struct nodes *nodes, struct err *e)
{
    if (!nodes_find(nodes, o->node))
        return err_set(e, ERR_INVALID, "%s does not name this node, \"%s\"", o->path, o->node);
    for (size_t i = 0; i < nodes->count; i++) {
        const struct node *n = &nodes->all[i];
        if (!n->tls && !node_is_loopback(n) && !o->allow_plaintext)
            return err_set(e, ERR_INVALID,
                           "%s: the URL of node \"%s\" is not https, so keys would travel "
                           "unencrypted; use TLS, or --allow-plaintext-network",
                           o->path, n->name);
    }
    return 0;
}

static int read_nodes(const struct peers_opts *o, struct nodes *out, struct err *e)
{
    if (nodes_read(o->path, out, e) == 0 && check_nodes(o, out, e) == 0)
        return 0;
    nodes_fini(out);
    return -1;
}

int peers_check(const struct peers_opts *o, struct err *e)
{
    struct nodes *nodes auto_free = xcalloc(1, sizeof *nodes);
    if (!o->path)
        return 0;
    if (!o->node)
        return err_set(e, ERR_INVALID, "--peers needs --node: add --node NAME");
    if (read_nodes(o, nodes, e) < 0)
        return err_wrap(e, "--peers");
    nodes_fini(nodes);
    return 0;
}

static void refresh(struct peers *p)
{
    struct file_stamp stamp;
    struct err e = ERR_INIT;
    file_stamp_get(p->opts.path, &stamp);
    if (file_stamp_equal(&stamp, &p->stamp))
        return;
    p->stamp = stamp;
    struct nodes *nodes auto_free = xcalloc(1, sizeof *nodes);
    if (read_nodes(&p->opts, nodes, &e) < 0) {
        log_error("peers.unreadable", "error=\"%s\" kept=%zu", e.msg, p->nodes.count);
        return;
    }
    nodes_fini(&p->nodes);
    p->nodes = *nodes; // takes the strings
    memset(p->quiet_until_ms, 0, sizeof p->quiet_until_ms);
    *p->misnamed = '\0';
    log_info("peers.read", "count=%zu", p->nodes.count);
}

struct peers *peers_new(uv_loop_t *loop, const struct peers_opts *o)
{
    if (!o->path)
        return NULL;
    struct peers *p = xcalloc(1, sizeof *p);
    p->opts = *o;
    p->http = http_client_new(loop);
    p->stamp.size = -1;
    LIST_INIT(&p->questions);
    refresh(p);
    return p;
}

static void on_client_closed(void *ctx)
{
    struct peers *p = ctx;
    nodes_fini(&p->nodes);
    free(p);
}

void peers_close(struct peers *p)
{
    if (p)
        http_client_close(p->http, on_client_closed, p);
}

// ---- 2. asking
static void on_head(int status, const struct http_header *headers, size_t count, const char *url,
                    void *ctx)
{
    (void)url;
    struct ask *a = ctx;
    const char *running = http_header_get(headers, count, "X-Total-Running");
    const char *node = http_header_get(headers, count, PEERS_NODE);
    snprintf(a->answers, sizeof a->answers, "%s", node ? node : "");
    a->status = status;
    a->more = http_header_get(headers, count, "X-Next-Token") != NULL;
    if (!running || !str_to_int(running, 0, INT32_MAX, &a->running))
        a->running = 0;
}

static bool on_data(const char *data, size_t len, void *ctx)
{
    struct ask *a = ctx;
    if (a->body.len + len > PEERS_BYTES)
        http_fetch_cancel(a->fetch);
    else
        buf_add(&a->body, data, len);
    return true;
}

// Return whether the peer is another node than the list says.
static bool is_other(const struct ask *a)
{
    return *a->answers && strcmp(a->answers, a->name) != 0;
}

// A wrong name in the list is logged once, as it stays wrong.
static void miss(const struct ask *a, const char *why)
{
    struct buf *names = &a->q->missing;
    if (a->quiet_until_ms) { // its sandboxes are at another node
        *a->quiet_until_ms = clock_mono_ms() + MOVED_QUIET_MS;
        log_debug("peers.moved", "node=%s error=\"%s\"", a->name, why);
        return;
    }
    if (!is_other(a) || strcmp(a->p->misnamed, a->name) != 0)
        log_warn("peers.missing", "node=%s error=\"%s\"", a->name, why);
    if (is_other(a))
        snprintf(a->p->misnamed, sizeof a->p->misnamed, "%s", a->name);
    buf_printf(names, "%s%s", names->len ? "," : "", a->name);
}

static void question_free(struct question *q)
{
    json_decref(q->bodies);
    for (size_t i = 0; i < q->count; i++)
        buf_fini(&q->asks[i].body);
    buf_fini(&q->missing);
    LIST_REMOVE(q, link);
    free(q);
}

static void finish(struct question *q)
{
    if (q->req) {
        http_request_on_close(q->req, NULL, NULL);
        q->sum.bodies = q->bodies;
        q->sum.missing = buf_str(&q->missing);
        q->cb(&q->sum, q->ctx);
    }
    question_free(q);
}

static void on_end(const struct err *e, void *ctx)
{
    struct ask *a = ctx;
    struct question *q = a->q;
    struct err bad = ERR_INIT;
    a->fetch = NULL;
    bool ok = !e && a->status == 200 && !is_other(a);
    json_t *body = ok ? json_parse(buf_str(&a->body), a->body.len, &bad) : NULL;
    if (!e && is_other(a))
        err_set(&bad, ERR_INVALID, "the daemon at its URL is node \"%s\"", a->answers);
    else if (!e && a->status != 200)
        err_set(&bad, ERR_INTERNAL, "HTTP status %d", a->status);
    if (body) {
        json_array_append_new(q->bodies, body);
        q->sum.more = q->sum.more || a->more;
        q->sum.running += a->running;
    } else {
        miss(a, e ? e->msg : bad.msg);
    }
    if (--q->pending == 0)
        finish(q);
}

static void on_gone(void *ctx)
{
    struct question *q = ctx;
    q->req = NULL;
    q->on_gone(q->ctx);
    for (size_t i = 0; i < q->count; i++)
        if (q->asks[i].fetch)
            http_fetch_cancel(q->asks[i].fetch); // on_end comes later
}

bool peers_asks(const struct peers *p, struct http_request *req)
{
    return p && !http_request_header(req, PEERS_HEADER) &&
           strcmp(http_request_peer(req), "unix") != 0;
}

static size_t pass_headers(const struct peers *p, const struct http_request *req,
                           struct http_header out[HEADERS_MAX])
{
    static const char *const KEYS[] = {"X-API-KEY", "Authorization"};
    size_t n = 0;
    out[n++] = (struct http_header){PEERS_HEADER, p->opts.node};
    for (size_t i = 0; i < ARRAY_LEN(KEYS); i++) {
        const char *value = http_request_header(req, KEYS[i]);
        if (value)
            out[n++] = (struct http_header){KEYS[i], value};
    }
    return n;
}

static void start_ask(struct peers *p, struct ask *a, const struct node *n)
{
    static const struct http_fetch_events EVENTS = {
        .on_head = on_head, .on_data = on_data, .on_end = on_end};
    struct http_header headers[HEADERS_MAX];
    char *url auto_free = str_printf("%s%s", n->url, http_request_target(a->q->req));
    struct http_fetch_opts opts = {.method = "GET",
                                   .url = url,
                                   .connect_to = n->address, // and never by a proxy
                                   .ca_file = p->opts.ca,
                                   .headers = headers,
                                   .header_count = pass_headers(p, a->q->req, headers),
                                   .connect_timeout_ms = *n->moved ? MOVED_MS : PEERS_MS,
                                   .total_timeout_ms = PEERS_MS};
    a->quiet_until_ms = *n->moved ? &p->quiet_until_ms[n - p->nodes.all] : NULL;
    memcpy(a->name, n->name, sizeof a->name);
    a->fetch = http_fetch_start(p->http, &opts, &EVENTS, a);
}

static bool is_peer(const struct peers *p, const struct node *n)
{
    bool quiet = *n->moved && clock_mono_ms() < p->quiet_until_ms[n - p->nodes.all];
    return strcmp(n->name, p->opts.node) != 0 && !quiet;
}

void peers_ask(struct peers *p, struct http_request *req, peers_cb cb, void (*gone)(void *ctx),
               void *ctx)
{
    refresh(p);
    struct question *q = xcalloc(1, sizeof *q + NODES_MAX * sizeof q->asks[0]);
    *q = (struct question){.req = req, .cb = cb, .on_gone = gone, .ctx = ctx};
    q->bodies = json_array();
    LIST_INSERT_HEAD(&p->questions, q, link);
    for (size_t i = 0; i < p->nodes.count; i++) {
        if (!is_peer(p, &p->nodes.all[i]))
            continue;
        struct ask *a = &q->asks[q->count++];
        a->q = q;
        a->p = p;
        q->pending++;
        start_ask(p, a, &p->nodes.all[i]);
    }
    if (q->pending == 0)
        finish(q);
    else
        http_request_on_close(req, on_gone, q);
}
