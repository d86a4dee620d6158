// SPDX-License-Identifier: Apache-2.0
// One side of a connection that passes through: a socket, TLS on it or not, and what waits to be
// sent. Embedded in its tunnel.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "sandbox-backend/egress/tls_end.h"
#include "sandbox-backend/net/stream_out.h"

struct link;

// All come from the loop. After on_failed nothing but link_close may be asked.
struct link_events {
    void (*on_ready)(struct link *l); // connected, and TLS stands
    void (*on_data)(struct link *l, const char *data, size_t len);
    void (*on_end)(struct link *l); // the other side sends no more
    void (*on_failed)(struct link *l, const char *why);
    void (*on_drained)(struct link *l); // something that waited has been sent
    void (*on_closed)(struct link *l);
};

struct link {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_pipe_t pipe;
        uv_tcp_t tcp;
    } io;
    struct stream_out out;
    struct tls_end *tls; // owned; NULL: none
    uv_connect_t connect;
    uv_shutdown_t shutdown;
    const struct link_events *events; // borrowed
    bool is_open;                     // has a handle that must be closed
    bool is_closing, is_ready, is_reading;
    bool is_shut;    // no more will be sent
    bool is_ending;  // and the other side is being told
    bool tls_failed; // it was TLS that failed
    size_t replies;  // bytes that TLS said by itself since all was sent
};

// The guest's side: takes the descriptor. With `tls` the handshake begins when it is read from. -1:
// nothing is open.
int link_accept(struct link *l, uv_loop_t *loop, int fd, struct tls_ends *tls, const char *name,
                const struct link_events *events, struct err *e);
// Connects to an address in digits, then shakes hands for `name` when there is `tls`.
int link_connect(struct link *l, uv_loop_t *loop, const char *address, int port,
                 struct tls_ends *tls, const char *name, const struct link_events *events,
                 struct err *e);
void link_read(struct link *l, bool on);
// Sends all of `data`, or keeps what cannot be sent yet. False: the socket is broken.
bool link_send(struct link *l, const struct buf *data);
size_t link_unsent(const struct link *l);
void link_shut(struct link *l);  // no more will be sent, once what waits has been
void link_close(struct link *l); // at once; on_closed follows when it is open
