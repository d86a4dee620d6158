// SPDX-License-Identifier: Apache-2.0
// cubby-egress: takes connections, keeps count of them, and reports refusals.
#include "sandbox-backend/egress/egress.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>
#include <uv.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/net_stats.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/egress/handover.h"
#include "sandbox-backend/egress/tunnel.h"
#include "sandbox-backend/log/log.h"

// ---- the configuration

#define CHUNK_BYTES 65536

static int read_all(int fd, struct buf *out, struct err *e)
{
    for (;;) {
        ssize_t n = read(fd, buf_room(out, CHUNK_BYTES), CHUNK_BYTES);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(e, errno, "read the configuration");
        if (n == 0)
            return 0;
        buf_took(out, (size_t)n);
        if (out->len > EGRESS_CONFIG_MAX)
            return err_set(e, ERR_TOO_LARGE, "the configuration is too long");
    }
}

static int take(struct egress_config *c, const json_t *json, struct err *e)
{
    const json_t *ca = json_object_get(json, "ca");
    const char *certificate = NULL, *key = NULL, *trust = NULL;
    if (json_get_string(ca, "certificate", &certificate, NULL, e) < 0 ||
        json_get_string(ca, "key", &key, NULL, e) < 0 ||
        json_get_string(json, "trust", &trust, NULL, e) < 0)
        return -1;
    if (!certificate || !key)
        return err_set(e, ERR_INVALID, "ca must have a certificate and a key");
    if (secrets_from_json(&c->secrets, json_object_get(json, "secrets"), e) < 0)
        return -1;
    if (rules_from_json(&c->rules, json_object_get(json, "rules"), e) < 0 ||
        proxy_from_json(&c->proxy, json_object_get(json, "proxy"), e) < 0)
        return -1;
    if (c->proxy.tls && !(c->proxy_tls = tls_contexts_for_proxy(c->proxy.ca, trust, e)))
        return -1;
    c->leaves = leaves_new(certificate, key, e);
    c->tls = c->leaves ? tls_contexts_new(c->leaves, trust, e) : NULL;
    return c->tls ? 0 : -1;
}

int egress_config_read(struct egress_config *c, int fd, struct err *e)
{
    *c = (struct egress_config){0};
    struct buf text auto_buf = BUF_INIT;
    json_t *json = NULL;
    int rc = read_all(fd, &text, e);
    close(fd);
    if (rc == 0 && !(json = json_parse(buf_str(&text), text.len, NULL)))
        rc = err_set(e, ERR_INVALID, "the configuration is not JSON"); // the parser's own error
                                                                       // would quote the text
    if (text.data)
        explicit_bzero(text.data, text.cap);
    if (rc == 0)
        rc = take(c, json, e);
    json_decref(json);
    return rc;
}

void egress_config_fini(struct egress_config *c)
{
    if (c->tls)
        tls_contexts_free(c->tls);
    if (c->leaves)
        leaves_free(c->leaves);
    if (c->proxy_tls)
        tls_contexts_free(c->proxy_tls);
    proxy_fini(&c->proxy);
    rules_fini(&c->rules);
    secrets_fini(&c->secrets);
    *c = (struct egress_config){0};
}

// ---- the process

#define AT_ONCE 16 // messages in one turn of the loop

struct entry {
    LIST_ENTRY(entry) link;
    struct tunnel *tunnel; // frees itself
};

struct egress {
    uv_loop_t loop;
    uv_poll_t poll; // watches `socket`
    int socket;     // owned
    struct egress_config config;
    struct tunnel_room room;
    struct dial_room dials;
    LIST_HEAD(entries, entry) tunnels;
    size_t count;
    struct net_stats *stats; // owned; counts refusals
    int64_t reported;        // refusals and failures
};

static void on_message(uv_poll_t *poll, int status, int events);
static void on_report(void *ctx, const struct tunnel_report *r);
static void on_gone(void *ctx, struct tunnel *tunnel);

struct egress *egress_new(const struct egress_options *o, struct err *e)
{
    struct egress *g = xcalloc(1, sizeof *g);
    g->socket = o->connections_fd;
    LIST_INIT(&g->tunnels);
    int failed = uv_loop_init(&g->loop);
    if (!failed)
        failed = uv_poll_init(&g->loop, &g->poll, g->socket);
    if (failed) {
        err_sys(e, -failed, "watch descriptor %d", g->socket);
        free(g);
        return NULL;
    }
    g->room = (struct tunnel_room){.loop = &g->loop,
                                   .secrets = &g->config.secrets,
                                   .rules = &g->config.rules,
                                   .report = on_report,
                                   .on_gone = on_gone,
                                   .ctx = g};
    g->dials = (struct dial_room){.loop = &g->loop, .proxy = &g->config.proxy};
    LIST_INIT(&g->dials.all);
    int rc = egress_config_read(&g->config, o->config_fd, e);
    if (rc < 0 || !(g->stats = net_stats_map(o->stats_fd, e))) {
        egress_free(g);
        return NULL;
    }
    g->room.tls = g->config.tls;
    g->room.dials = g->config.proxy.host ? &g->dials : NULL;
    g->dials.tls = g->config.proxy_tls;
    return g;
}

// ---- reports

// Count a refusal for the daemon. `what` has a few words, because equal ones are counted together.
static void count(struct egress *g, const struct tunnel_report *r)
{
    struct net_stats_contact one = {.proto = NET_PROTO_TCP, .port = (uint16_t)r->port};
    struct in_addr address;
    if (inet_pton(AF_INET, r->address, &address) == 1)
        one.address = ntohl(address.s_addr);
    if (!str_eq(r->host, r->address) || !one.address)
        snprintf(one.name, sizeof one.name, "%s", r->host);
    int room = (int)(sizeof one.why - sizeof "secret : " - strlen(r->what));
    if (r->secret)
        snprintf(one.why, sizeof one.why, "secret %.*s: %s", room, r->secret, r->what);
    else
        snprintf(one.why, sizeof one.why, "%s", r->what);
    net_stats_refused(g->stats, &one);
}

static void on_report(void *ctx, const struct tunnel_report *r)
{
    struct egress *g = ctx;
    g->reported++;
    if (r->what)
        count(g, r);
    log_warn("egress.refused", "count=%lld host=%s port=%d secret=%s why=\"%s\"",
             (long long)g->reported, r->host, r->port, r->secret ? r->secret : "-", r->why);
}

// ---- connections

static void on_wrong_message(struct egress *g, const struct err *e)
{
    const struct tunnel_report r = {.host = "", .address = "", .what = "an invalid handover"};
    count(g, &r);
    log_warn("egress.message", "error=\"%s\"", e->msg);
}

static void drop(struct egress *g, const struct tunnel_target *target, const char *what,
                 const char *why)
{
    on_report(g, &(struct tunnel_report){.host = *target->name ? target->name : target->address,
                                         .address = target->address,
                                         .port = target->port,
                                         .what = what,
                                         .why = why});
}

static void start(struct egress *g, const struct tunnel_target *target, int fd)
{
    struct err e = ERR_INIT;
    if (g->count == EGRESS_CONNECTIONS_MAX) {
        drop(g, target, "too many connections to secrets' proxy",
             "too many connections are open at once");
        close(fd);
        return;
    }
    struct entry *entry = xcalloc(1, sizeof *entry);
    entry->tunnel = tunnel_start(&g->room, target, fd, &e);
    if (!entry->tunnel) {
        drop(g, target, NULL, e.msg);
        free(entry);
        return;
    }
    g->count++;
    LIST_INSERT_HEAD(&g->tunnels, entry, link);
}

static void on_dialled(void *ctx, const struct dial *d, const char *what, const char *why)
{
    const struct tunnel_target target = {
        .name = "", .address = dial_address(d), .port = dial_port(d)};
    if (why)
        drop(ctx, &target, what, why);
}

static void start_dial(struct egress *g, const struct tunnel_target *target, int fd)
{
    struct err e = ERR_INIT;
    const struct dial_target to = {target->address, target->port};
    if (!g->room.dials) {
        close(fd);
        err_set(&e, ERR_INVALID, "there is no upstream proxy");
        on_wrong_message(g, &e);
    } else if (!dial_start(&g->dials, &to, fd, true, on_dialled, g, &e)) {
        drop(g, target, "too many connections through the upstream proxy", e.msg);
    }
}

static void on_message(uv_poll_t *poll, int status, int events)
{
    struct egress *g = container_of(poll, struct egress, poll);
    (void)status; // receiving tells what is wrong with the socket
    (void)events;
    for (int i = 0; i < AT_ONCE; i++) {
        struct tunnel_target target;
        struct err e = ERR_INIT;
        json_t *json;
        int fd;
        enum handover got = handover_receive(g->socket, &target, &json, &fd, &e);
        if (got == HANDOVER_NONE)
            return;
        if (got == HANDOVER_OVER) {
            uv_poll_stop(poll);
            uv_stop(&g->loop);
            return;
        }
        if (got == HANDOVER_ONE && target.dial)
            start_dial(g, &target, fd);
        else if (got == HANDOVER_ONE)
            start(g, &target, fd);
        else
            on_wrong_message(g, &e);
        json_decref(json);
    }
}

static void on_gone(void *ctx, struct tunnel *tunnel)
{
    struct egress *g = ctx;
    struct entry *entry = NULL;
    LIST_FOREACH (entry, &g->tunnels, link) {
        if (entry->tunnel != tunnel)
            continue;
        LIST_REMOVE(entry, link);
        free(entry);
        g->count--;
        return;
    }
}

// ---- the whole

int egress_run(struct egress *g, struct err *e)
{
    int failed = uv_poll_start(&g->poll, UV_READABLE | UV_DISCONNECT, on_message);
    if (failed)
        return err_sys(e, -failed, "watch for connections");
    log_info("egress.start", "secrets=%zu", g->config.secrets.count);
    uv_run(&g->loop, UV_RUN_DEFAULT);
    return 0;
}

void egress_free(struct egress *g)
{
    struct entry *entry = NULL;
    LIST_FOREACH (entry, &g->tunnels, link) {
        tunnel_cut(entry->tunnel);
    }
    dial_cut_all(&g->dials);
    uv_close((uv_handle_t *)&g->poll, NULL);
    uv_run(&g->loop, UV_RUN_DEFAULT);
    uv_loop_close(&g->loop);
    close(g->socket);
    egress_config_fini(&g->config);
    if (g->stats)
        net_stats_unmap(g->stats);
    free(g);
}
