// SPDX-License-Identifier: Apache-2.0
// Shared by the files of the HTTP server: the connection (http_peer.c), its request
// (http_request.c) and the answer (http_response.c).
#pragma once
#include <netinet/in.h>
#include <time.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/net/deadline.h"
#include "sandbox-backend/net/http_body.h"
#include "sandbox-backend/net/http_parser.h"
#include "sandbox-backend/net/http_server.h"
#include "sandbox-backend/net/stream_out.h"
#include "sandbox-backend/net/tls_internal.h"

#define HTTP_READ_BYTES  (64 * 1024)
#define HTTP_BODY_RATE   4096          // bytes a second: the least average of a collected body
#define HTTP_DRAIN_BYTES (1024 * 1024) // most of an untaken body that is read and dropped

// Limits of one turn of the loop, for one connection and for all kicked peers; see http_server.c.
#define HTTP_TURN_REQUESTS 64
#define HTTP_TURN_MS       5
#define HTTP_LARGE_BODY    HTTP_READ_BYTES

union http_stream {
    uv_handle_t handle;
    uv_stream_t stream;
    uv_pipe_t pipe;
    uv_tcp_t tcp;
};

struct http_listener {
    union http_stream io;
    struct http_server *server;
    struct http_listener *next;
    char *path; // of a unix socket; owned
    dev_t dev;  // of our own socket file
    ino_t ino;
};

struct http_server {
    uv_loop_t *loop;
    struct http_server_opts opts;
    struct http_listener *listeners;
    struct http_peer *peers;
    struct http_peer *kicked, **kicked_end; // waiting for `idle`, in this order
    bool in_idle;                           // `idle` is running them
    uv_idle_t idle;
    unsigned handles;   // open handles: listeners, peers and `idle`
    unsigned connected; // count of peers
    bool closing;
    void (*on_closed)(void *ctx);
    void *on_closed_ctx;
    time_t date_at;
    char date[40];
    char read_buf[HTTP_READ_BYTES]; // shared by all reads
};

enum peer_state {
    PEER_HANDSHAKE, // TLS handshake
    PEER_IDLE,      // between requests
    PEER_HEAD,      // a part of a head has come
    PEER_REQUEST,   // a handler has the request
    PEER_DRAIN,     // answered; the rest of the request's body is dropped
    PEER_LINGER,    // the last answer was given; waits until the peer has ended too
    PEER_CLOSED,
    PEER_STATES
};

struct http_peer {
    union http_stream io;
    struct http_server *server;
    struct http_peer *next, **link; // in server->peers
    struct http_peer *next_kicked;
    bool kicked;
    unsigned begun; // requests begun in this turn,
    uint64_t turn;  // which began at this loop time
    bool running;   // http_peer_run is on the stack
    bool reading;
    bool eof;      // the peer has shut its side
    bool shutting; // uv_shutdown was called,
    bool shut;     // and has completed
    bool keep_alive;
    enum peer_state state;
    int open_handles;
    struct deadline deadline;
    struct http_parser parser;
    struct buf pending; // received, not yet parsed
    size_t drained;
    struct stream_out out;
    struct tls_session *tls; // owned; NULL without TLS
    size_t tls_replies;      // bytes that the session itself produced since everything was sent
    uv_shutdown_t shutdown;
    struct http_request *req; // owned until it has ended
};

enum body_mode { BODY_UNTAKEN, BODY_STREAMED, BODY_COLLECTED };

struct http_query {
    struct http_query *next;
    char *value;
};

struct http_request {
    struct http_peer *peer;
    const char *method;
    char *path;                     // decoded
    char address[INET6_ADDRSTRLEN]; // of the peer, after the first question for it
    struct http_query *queries;
    bool is_http10;
    bool is_head;
    bool is_tunnel;      // 101 was answered: the connection carries bytes, no more messages
    bool is_shutting;    // our side is to be shut
    bool wants_continue; // Expect: 100-continue, not answered yet

    enum body_mode mode;
    bool whole;    // the body's last byte was parsed,
    bool end_told; // and the handler knows
    bool paused;
    bool too_large; // to be answered with 413
    struct http_body_events body;
    struct buf collected;
    size_t collect_max;
    uint64_t collect_began; // loop time, ms
    bool is_slow;           // the deadline is that of HTTP_BODY_RATE
    void (*on_body)(struct http_request *req, const char *body, size_t len, void *ctx);
    void *body_ctx;

    void (*on_close)(void *ctx);
    void *close_ctx;

    struct buf extra; // headers that the handler added
    struct http_sender sender;
    bool has_date;
    bool begun;
    bool no_body; // HEAD, 204, 304
    int64_t left; // bytes left of a declared length; -1: no length
    bool want_drain;
    bool want_empty; // wait until nothing at all is unsent
    void (*on_drain)(void *ctx);
    void *drain_ctx;
};

// ---- http_server.c
void http_server_release(struct http_server *s); // a handle has closed

// ---- http_peer.c
void http_peer_accept(struct http_listener *l);
void http_peer_close(struct http_peer *peer);
void http_peer_linger(struct http_peer *peer); // send the queue, then end the connection
void http_peer_run(struct http_peer *peer);
void http_peer_answered(struct http_peer *peer); // the request has ended; frees it

void http_peer_ready(struct http_peer *peer); // requests may come
void http_peer_received(struct http_peer *peer, const char *data, size_t len);
void http_peer_ended(struct http_peer *peer); // the peer sends nothing more

// ---- http_server.c: the connections that wait for a turn
void http_peer_kick(struct http_peer *peer); // run it soon, from the loop
void http_peer_unqueue(struct http_peer *peer);
void http_peer_begin_turn(struct http_peer *peer); // unless the same turn goes on
bool http_peer_had_turn(const struct http_peer *peer);
bool http_peer_has_left(const struct http_peer *peer); // even if bytes of it are still unread

// ---- http_peer_tls.c
void http_peer_tls_open(struct http_peer *peer);
void http_peer_tls_close(struct http_peer *peer);
// bytes of the socket
void http_peer_tls_received(struct http_peer *peer, const char *data, size_t len);
void http_peer_tls_bye(struct http_peer *peer); // send close_notify, if possible

// ---- http_request.c
struct http_request *http_request_new(struct http_peer *peer); // NULL: invalid target
void http_request_free(struct http_request *req);
bool http_request_wants_step(const struct http_request *req); // it takes the next parsed event
bool http_request_is_large(const struct http_request *req);   // larger than HTTP_LARGE_BODY
void http_request_on_data(struct http_request *req, const char *data, size_t len);
void http_request_on_end(struct http_request *req);
void http_request_refuse_large(struct http_request *req);

// ---- http_response.c
// Send a whole answer to a request that the server could not accept.
void http_response_refuse(struct http_peer *peer, int status, const char *message);
