// SPDX-License-Identifier: Apache-2.0
// A link: one side of a tunnel. It has a socket, with or without TLS, and the bytes that wait to be
// sent. Embedded in its tunnel.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "sandbox-backend/egress/tls_context.h"
#include "sandbox-backend/net/stream_out.h"

struct link;

// All events come from the loop. After on_failed only link_close may be called.
struct link_events {
    void (*on_ready)(struct link *l); // connected, and the TLS handshake is over
    void (*on_data)(struct link *l, const char *data, size_t len);
    void (*on_end)(struct link *l); // the other side sends nothing more
    void (*on_failed)(struct link *l, const char *why);
    void (*on_drained)(struct link *l); // some of the waiting bytes have been sent
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
    struct tls_session *tls; // owned; NULL: none
    uv_connect_t connect;
    uv_shutdown_t shutdown;
    const struct link_events *events; // borrowed
    bool is_open;                     // has a handle that must be closed
    bool is_closing, is_ready, is_reading;
    bool is_shut;    // nothing more will be sent
    bool is_ending;  // the end of this direction is being sent
    bool tls_failed; // the failure was TLS's
    size_t replies;  // bytes of TLS's own messages since `out` was last empty
};

// Take over the guest's descriptor. With `tls`, the handshake begins with the first read. Return -1
// when it fails; nothing is open then.
int link_accept(struct link *l, uv_loop_t *loop, int fd, struct tls_contexts *tls, const char *name,
                const struct link_events *events, struct err *e);
// Connect to an address in digits, then do the TLS handshake for `name` if `tls` is given.
int link_connect(struct link *l, uv_loop_t *loop, const char *address, int port,
                 struct tls_contexts *tls, const char *name, const struct link_events *events,
                 struct err *e);
// Take a socket (closed on failure) whose other end is not connected to the host yet. Nothing is
// read or sent until link_connected.
int link_take(struct link *l, uv_loop_t *loop, int fd, struct tls_contexts *tls, const char *name,
              const struct link_events *events, struct err *e);
void link_connected(struct link *l); // it is connected: begin, as after link_connect
void link_read(struct link *l, bool on);
// Send all of `data`, or keep what cannot be sent yet. False: the socket is broken.
bool link_send(struct link *l, const struct buf *data);
size_t link_unsent(const struct link *l);
void link_shut(struct link *l);  // end this direction after the waiting bytes
void link_close(struct link *l); // at once; on_closed follows if the link is open
