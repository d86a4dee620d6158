// SPDX-License-Identifier: Apache-2.0
// cubby-egress: takes connections, counts them, and reports what was refused.
#include "sandbox-backend/egress/egress.h"

#include <sys/queue.h>
#include <unistd.h>
#include <uv.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/egress/egress_config.h"
#include "sandbox-backend/egress/handover.h"
#include "sandbox-backend/egress/tunnel.h"
#include "sandbox-backend/log/log.h"

#define AT_ONCE 16 // messages of one turn

struct entry {
    LIST_ENTRY(entry) link;
    struct tunnel *tunnel; // frees itself
};

struct egress {
    uv_loop_t loop;
    uv_poll_t poll; // of `socket`
    int socket;     // owned
    struct egress_config config;
    struct tunnel_room room;
    LIST_HEAD(entries, entry) tunnels;
    size_t count;
    int64_t refused; // or failed, all told
};

static void on_message(uv_poll_t *poll, int status, int events);
static void on_report(void *ctx, const char *host, int port, const char *secret, const char *why);
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
                                   .report = on_report,
                                   .on_gone = on_gone,
                                   .ctx = g};
    if (egress_config_read(&g->config, o->config_fd, e) < 0) {
        egress_free(g);
        return NULL;
    }
    g->room.tls = g->config.tls;
    return g;
}

// ---- connections

static void start(struct egress *g, const struct tunnel_target *target, int fd)
{
    struct err e = ERR_INIT;
    if (g->count == EGRESS_CONNECTIONS_MAX) {
        close(fd);
        on_report(g, target->name, target->port, NULL, "too many connections are open at once");
        return;
    }
    struct entry *entry = xcalloc(1, sizeof *entry);
    entry->tunnel = tunnel_start(&g->room, target, fd, &e);
    if (!entry->tunnel) {
        on_report(g, target->name, target->port, NULL, e.msg);
        free(entry);
        return;
    }
    g->count++;
    LIST_INSERT_HEAD(&g->tunnels, entry, link);
}

static void on_message(uv_poll_t *poll, int status, int events)
{
    struct egress *g = container_of(poll, struct egress, poll);
    (void)status; // what is wrong with the socket, receiving says
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
        if (got == HANDOVER_ONE)
            start(g, &target, fd);
        else
            log_warn("egress.message", "error=\"%s\"", e.msg);
        json_decref(json);
    }
}

static void on_report(void *ctx, const char *host, int port, const char *secret, const char *why)
{
    struct egress *g = ctx;
    g->refused++;
    log_warn("egress.refused", "count=%lld host=%s port=%d secret=%s why=\"%s\"",
             (long long)g->refused, host, port, secret ? secret : "-", why);
}

static void on_gone(void *ctx, struct tunnel *tunnel)
{
    struct egress *g = ctx;
    struct entry *entry;
    LIST_FOREACH(entry, &g->tunnels, link)
    {
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
    struct entry *entry;
    LIST_FOREACH(entry, &g->tunnels, link) tunnel_cut(entry->tunnel);
    uv_close((uv_handle_t *)&g->poll, NULL);
    uv_run(&g->loop, UV_RUN_DEFAULT);
    uv_loop_close(&g->loop);
    close(g->socket);
    egress_config_fini(&g->config);
    free(g);
}
