// SPDX-License-Identifier: Apache-2.0
// TLS between a connection's socket and its requests and answers.
//
// A connection begins in PEER_HANDSHAKE. Bytes from the socket go to the TLS session, and its plain
// bytes take the way of a plain socket's. stream_out encrypts answers as they leave. An orderly end
// sends close_notify. A broken connection sends none, so that no peer takes half an answer for a
// whole one.
//
// A TLS session also sends by itself: it answers each KeyUpdate of a peer with one (RFC 8446,
// 4.6.3). Such answers carry no plain bytes, so back-pressure does not stop a peer that asks and
// never reads. A connection with more than LIMIT_STREAM_QUEUE_BYTES of unsent session replies is
// closed.
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/log/log.h"
#include "sandbox-backend/net/http_server_internal.h"

static const struct tls_methods *methods(const struct http_peer *peer)
{
    return peer->server->opts.tls->methods;
}

static bool on_seal(struct stream_out *out, const void *data, size_t len)
{
    struct http_peer *peer = container_of(out, struct http_peer, out);
    return methods(peer)->seal(peer->tls, data, len);
}

void http_peer_tls_open(struct http_peer *peer)
{
    peer->out.seal = on_seal;
    peer->tls = methods(peer)->open(peer->server->opts.tls, &peer->out.sealed);
    if (!peer->tls)
        http_peer_close(peer);
}

void http_peer_tls_close(struct http_peer *peer)
{
    if (peer->tls)
        methods(peer)->free(steal(&peer->tls));
}

// The client used http: instead of https:, so the answer is plain HTTP.
static void answer_plain(struct http_peer *peer)
{
    http_peer_tls_close(peer);
    peer->out.seal = NULL;
    buf_clear(&peer->out.sealed);
    http_response_refuse(peer, 400, "this port speaks https: use a URL that begins with https://");
}

static void on_broken(struct http_peer *peer)
{
    log_debug("tls.failed", "error=\"%s\"", methods(peer)->why(peer->tls));
    if (peer->state == PEER_HANDSHAKE || peer->state == PEER_IDLE) {
        http_peer_linger(peer); // the alert names the reason
        return;
    }
    stream_out_flush(&peer->out);
    http_peer_close(peer);
}

static enum tls_event take(struct http_peer *peer, char *into, size_t room, size_t *len)
{
    size_t before = peer->out.sealed.len;
    enum tls_event event = methods(peer)->take(peer->tls, into, room, len);
    peer->tls_replies += peer->out.sealed.len - before;
    return event;
}

// Send what the session itself produced: handshake, tickets, new keys. False: the peer does not
// read.
static bool send_replies(struct http_peer *peer)
{
    if (stream_out_flush(&peer->out) != 0)
        return false;
    if (stream_out_unsent(&peer->out) == 0)
        peer->tls_replies = 0;
    if (peer->tls_replies <= LIMIT_STREAM_QUEUE_BYTES)
        return true;
    log_debug("tls.unread", "replies=%zu", peer->tls_replies);
    return false;
}

void http_peer_tls_received(struct http_peer *peer, const char *data, size_t len)
{
    const struct tls_methods *m = methods(peer);
    char plain[TLS_PLAIN_BYTES];
    enum tls_event event = TLS_DATA;
    m->give(peer->tls, data, len);
    while (event == TLS_DATA && peer->state < PEER_LINGER) {
        size_t n = 0;
        event = take(peer, plain, sizeof plain, &n);
        if (peer->state == PEER_HANDSHAKE && m->is_established(peer->tls))
            http_peer_ready(peer);
        if (event == TLS_DATA)
            http_peer_received(peer, plain, n);
    }
    if (peer->state >= PEER_LINGER)
        return;
    if (event == TLS_HTTP)
        answer_plain(peer);
    else if (event == TLS_BAD)
        on_broken(peer);
    else if (!send_replies(peer))
        http_peer_close(peer);
    else if (event == TLS_END)
        http_peer_ended(peer);
}

void http_peer_tls_bye(struct http_peer *peer)
{
    if (peer->tls && peer->out.seal)
        methods(peer)->bye(peer->tls);
}
