// SPDX-License-Identifier: Apache-2.0
// vm.net of a guest without a network card.
//
// States of a connection: LINE -> CONNECTING -> OPEN, and from each of them straight to its end. A
// connection that asks for the port of envd's relay begins again in LINE. An end of file is passed
// on for its direction alone.
#include "sandbox-backend/nest/relay.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define LINE_BYTES 32
#define WAY_BYTES  65536
#define FULL_MS    100 // pause of a relay without descriptors
#define VERB       "CONNECT "

enum conn_state { CONN_LINE, CONN_CONNECTING, CONN_OPEN };

// One direction: bytes [head, tail) have been read and not been written.
struct way {
    char *bytes; // owned; NULL before OPEN
    size_t head, tail;
    bool ended; // the source has no more
    bool shut;  // and the target was told
};

struct conn {
    enum conn_state state;
    int client, port; // owned; port is -1 before CONNECTING
    int number;       // of the port
    bool tried_v4;
    char line[LINE_BYTES];
    size_t line_len;
    struct way out, in; // of the guest, and to it
    bool gone;          // the client has closed both directions
};

struct relay {
    int listener;                  // borrowed
    const char *envd;              // borrowed; see relay_new
    bool is_full;                  // no descriptor is left for a further connection
    struct conn *conns[RELAY_MAX]; // owned
    size_t count;
};

struct relay *relay_new(int listener, const char *envd)
{
    struct relay *r = xcalloc(1, sizeof *r);
    r->listener = listener;
    r->envd = envd;
    return r;
}

static void conn_free(struct conn *c)
{
    mem_close_fd(&c->client);
    mem_close_fd(&c->port);
    free(c->out.bytes);
    free(c->in.bytes);
    free(c);
}

void relay_free(struct relay *r)
{
    for (size_t i = 0; r && i < r->count; i++)
        conn_free(r->conns[i]);
    free(r);
}

// ---- the events to wait for

static short events_of(const struct way *from, const struct way *to)
{
    bool reads = !from->ended && from->tail < WAY_BYTES;
    bool writes = to->head < to->tail;
    return (short)((reads ? POLLIN : 0) | (writes ? POLLOUT : 0));
}

size_t relay_watch(struct relay *r, struct pollfd *fds)
{
    bool accepts = r->count < RELAY_MAX && !r->is_full;
    fds[0] = (struct pollfd){.fd = accepts ? r->listener : -1, .events = POLLIN};
    for (size_t i = 0; i < r->count; i++) {
        const struct conn *c = r->conns[i];
        bool is_open = c->state == CONN_OPEN;
        struct pollfd *client = &fds[1 + 2 * i], *port = &fds[2 + 2 * i];
        *client = (struct pollfd){.fd = c->state == CONN_CONNECTING ? -1 : c->client};
        *port = (struct pollfd){.fd = c->port};
        client->events = is_open ? events_of(&c->in, &c->out) : POLLIN;
        port->events = is_open ? events_of(&c->out, &c->in) : POLLOUT;
        // A side that has ended would wake poll again and again.
        client->fd = c->gone && !client->events ? -1 : client->fd;
        port->fd = is_open && !port->events ? -1 : port->fd;
    }
    return 1 + 2 * r->count;
}

int relay_wait_ms(const struct relay *r)
{
    return r->is_full ? FULL_MS : -1;
}

// ---- LINE and CONNECTING. Each function returns false when the connection is over.

static bool answer(const struct conn *c, const char *text)
{
    size_t len = strlen(text);
    return send(c->client, text, len, MSG_NOSIGNAL) == (ssize_t)len;
}

static bool refuse(const struct conn *c, const char *text)
{
    answer(c, text);
    return false;
}

static const char *reason_of(int error)
{
    bool is_limit = error == EMFILE || error == ENFILE || error == EAGAIN;
    return is_limit ? "ERR limit\n" : "ERR refused\n";
}

static bool dial_envd(const struct relay *r, struct conn *c)
{
    c->port = fd_connect_unix(r->envd); // never waits: a full backlog is EAGAIN
    if (c->port < 0)
        return refuse(c, reason_of(errno));
    c->tried_v4 = true; // no other way is left
    c->state = CONN_CONNECTING;
    return true;
}

// Dial 127.0.0.1, and ::1 when that has failed.
static bool dial(struct conn *c)
{
    const struct sockaddr_in v4 = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)c->number),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
                                    .sin6_port = htons((uint16_t)c->number),
                                    .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    const struct sockaddr *to = c->tried_v4 ? (const void *)&v6 : (const void *)&v4;
    mem_close_fd(&c->port);
    c->port = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (c->port < 0)
        return refuse(c, reason_of(errno));
    setsockopt(c->port, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    c->state = CONN_CONNECTING;
    if (connect(c->port, to, c->tried_v4 ? sizeof v6 : sizeof v4) == 0 || errno == EINPROGRESS)
        return true;
    if (c->tried_v4)
        return refuse(c, reason_of(errno));
    c->tried_v4 = true;
    return dial(c);
}

// The client speaks to envd's relay, which is this one: another line follows.
static bool begin_again(struct conn *c)
{
    c->line_len = 0;
    return answer(c, "OK\n");
}

// Read the line byte by byte: what follows it is for the port.
static bool read_line(const struct relay *r, struct conn *c)
{
    char byte;
    int64_t port;
    for (;;) {
        ssize_t n = recv(c->client, &byte, 1, MSG_DONTWAIT);
        if (n <= 0)
            return n < 0 && (errno == EAGAIN || errno == EINTR);
        if (byte == '\n')
            break;
        if (c->line_len == LINE_BYTES - 1)
            return refuse(c, "ERR bad-request\n");
        c->line[c->line_len++] = byte;
    }
    c->line[c->line_len] = '\0';
    if (!str_starts(c->line, VERB) || !str_to_int(c->line + strlen(VERB), 1, 65535, &port))
        return refuse(c, "ERR bad-request\n");
    c->number = (int)port;
    if (r->envd && port == ENVD_PORT)
        return dial_envd(r, c);
    return r->envd && port == ENVD_RELAY_PORT ? begin_again(c) : dial(c);
}

static bool finish_dial(struct conn *c)
{
    int error = 0;
    socklen_t len = sizeof error;
    if (getsockopt(c->port, SOL_SOCKET, SO_ERROR, &error, &len) < 0 || error) {
        if (c->tried_v4)
            return refuse(c, "ERR refused\n");
        c->tried_v4 = true;
        return dial(c);
    }
    if (!answer(c, "OK\n"))
        return false;
    c->state = CONN_OPEN;
    c->out.bytes = xmalloc(WAY_BYTES);
    c->in.bytes = xmalloc(WAY_BYTES);
    return true;
}

// ---- OPEN

static bool fill(struct way *w, int from)
{
    ssize_t n = recv(from, w->bytes + w->tail, WAY_BYTES - w->tail, MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    w->ended = n == 0;
    w->tail += (size_t)n;
    return true;
}

static bool drain(struct way *w, int to)
{
    if (w->head < w->tail) {
        ssize_t n = send(to, w->bytes + w->head, w->tail - w->head, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        w->head += n > 0 ? (size_t)n : 0;
    }
    if (w->head == w->tail)
        w->head = w->tail = 0;
    if (w->ended && !w->tail && !w->shut) {
        shutdown(to, SHUT_WR);
        w->shut = true;
    }
    return true;
}

static bool move(struct way *w, int from, short from_events, int to)
{
    bool has_news = from_events & (POLLIN | POLLHUP | POLLERR) && !w->ended && w->tail < WAY_BYTES;
    return (!has_news || fill(w, from)) && drain(w, to);
}

static bool serve_open(struct conn *c, short client, short port)
{
    c->gone |= (client & POLLHUP) != 0;
    return move(&c->in, c->client, client, c->port) && move(&c->out, c->port, port, c->client) &&
           !(c->in.shut && (c->out.shut || c->gone));
}

static bool serve(const struct relay *r, struct conn *c, short client, short port)
{
    switch (c->state) {
    case CONN_LINE:
        return !client || read_line(r, c);
    case CONN_CONNECTING:
        return !port || finish_dial(c);
    case CONN_OPEN:
        return serve_open(c, client, port);
    }
    return false;
}

static void accept_one(struct relay *r)
{
    int client = accept4(r->listener, NULL, NULL, SOCK_CLOEXEC);
    r->is_full = client < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS);
    if (client < 0)
        return;
    struct conn *c = xcalloc(1, sizeof *c);
    c->client = client;
    c->port = -1;
    r->conns[r->count++] = c;
}

void relay_serve(struct relay *r, const struct pollfd *fds)
{
    size_t kept = 0, polled = r->count;
    for (size_t i = 0; i < polled; i++) {
        struct conn *c = r->conns[i];
        if (serve(r, c, fds[1 + 2 * i].revents, fds[2 + 2 * i].revents))
            r->conns[kept++] = c;
        else
            conn_free(c);
    }
    r->count = kept;
    r->is_full = false; // until the next attempt
    if (fds[0].revents & POLLIN)
        accept_one(r);
}
