// SPDX-License-Identifier: Apache-2.0
// The queue of connections that run from the loop, and how long they may at a time.
#include <poll.h>

#include "sandbox-backend/net/http_server_internal.h"

static struct http_peer *next_kicked(struct http_server *s)
{
    struct http_peer *peer = s->kicked;
    s->kicked = peer->next_kicked;
    if (!s->kicked)
        s->kicked_end = &s->kicked;
    peer->kicked = false;
    return peer;
}

// Those that are kicked meanwhile have their turn in the next one.
static void on_idle(uv_idle_t *idle)
{
    struct http_server *s = idle->data;
    struct http_peer **last = s->kicked_end;
    uint64_t until = uv_hrtime() + HTTP_TURN_MS * (uint64_t)1000000;
    bool was_last = false;
    s->in_idle = true;
    while (s->kicked && !was_last && uv_hrtime() < until) {
        was_last = &s->kicked->next_kicked == last;
        struct http_peer *peer = next_kicked(s);
        peer->begun = 0;
        http_peer_run(peer);
    }
    s->in_idle = false;
    if (!s->kicked)
        uv_idle_stop(idle);
}

void http_peer_kick(struct http_peer *peer)
{
    struct http_server *s = peer->server;
    if (peer->kicked || peer->running || peer->state == PEER_CLOSED)
        return;
    peer->kicked = true;
    peer->next_kicked = NULL;
    *s->kicked_end = peer;
    s->kicked_end = &peer->next_kicked;
    uv_idle_start(&s->idle, on_idle);
}

void http_peer_unqueue(struct http_peer *peer)
{
    if (!peer->kicked)
        return;
    struct http_server *s = peer->server;
    struct http_peer **at = &s->kicked;
    while (*at != peer)
        at = &(*at)->next_kicked;
    *at = peer->next_kicked;
    if (!*at)
        s->kicked_end = at;
}

void http_peer_begin_turn(struct http_peer *peer)
{
    uint64_t now = uv_now(peer->server->loop);
    if (peer->turn == now)
        return;
    peer->turn = now;
    peer->begun = 0;
}

bool http_peer_had_turn(const struct http_peer *peer)
{
    return peer->state == PEER_IDLE && peer->begun >= HTTP_TURN_REQUESTS;
}

bool http_peer_has_left(const struct http_peer *peer)
{
    uv_os_fd_t fd;
    if (uv_fileno(&peer->io.handle, &fd) != 0)
        return true;
    struct pollfd ask = {.fd = fd, .events = POLLRDHUP};
    return poll(&ask, 1, 0) > 0;
}
