// SPDX-License-Identifier: Apache-2.0
// The HTTP server on a unix socket, and a peer that sends and reads bytes, in one loop, for units.
#pragma once
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"
#include "sandbox-backend/net/http_server.h"
#include "tests/lib/harness/tap.h"

#define PEER_WAIT_MS 30000
#define PEER_HOST    "Host: x\r\n"

static struct {
    uv_loop_t loop;
    struct http_server *server;
    char dir[32];
    char path[40];
} peer;

// ---- the server

static inline void peer_on_echo(struct http_request *req, const char *body, size_t len, void *ctx)
{
    (void)ctx;
    http_respond(req, 200, "application/octet-stream", body, len);
}

// Answer the paths that both units use. Each unit answers its other paths itself.
static inline void peer_answer(struct http_request *req)
{
    const char *p = http_request_path(req);
    if (str_eq(p, "/echo"))
        http_request_collect(req, 1000, peer_on_echo, NULL);
    else if (str_eq(p, "/empty"))
        http_respond(req, 204, NULL, NULL, 0);
    else
        http_respond_error(req, 404, "nothing at %s", p);
}

static inline void peer_listen(const struct http_server_opts *opts)
{
    struct err e = ERR_INIT;
    peer.server = http_server_new(&peer.loop, opts);
    if (http_server_listen_unix(peer.server, peer.path, 0600, &e) != 0) {
        fprintf(stderr, "the server does not listen: %s\n", e.msg);
        abort();
    }
}

static inline void peer_open(const struct http_server_opts *opts)
{
    signal(SIGPIPE, SIG_IGN);
    log_set_level(LOG_ERROR);
    strcpy(peer.dir, "/tmp/test-http-XXXXXX");
    if (!mkdtemp(peer.dir))
        abort();
    snprintf(peer.path, sizeof peer.path, "%s/s", peer.dir);
    uv_loop_init(&peer.loop);
    peer_listen(opts);
}

// ---- the client

static inline int peer_dial(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", peer.path);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        abort();
    return fd;
}

static inline void peer_turn(void)
{
    uv_run(&peer.loop, UV_RUN_NOWAIT);
}

static inline void peer_say_n(int fd, const char *data, size_t len)
{
    int64_t end = clock_mono_ms() + PEER_WAIT_MS;
    while (len && clock_mono_ms() < end) {
        ssize_t n = send(fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN)
            return;
        data += n < 0 ? 0 : n;
        len -= n < 0 ? 0 : (size_t)n;
        peer_turn();
    }
}

static inline void peer_say(int fd, const char *s)
{
    peer_say_n(fd, s, strlen(s));
}

// Read until the bytes end with `until`, or the connection ends. Cut the answer's Date.
static inline const char *peer_hear(int fd, const char *until)
{
    static struct buf got;
    buf_clear(&got);
    int64_t end = clock_mono_ms() + PEER_WAIT_MS;
    while (clock_mono_ms() < end) {
        char piece[65536];
        ssize_t n = recv(fd, piece, sizeof piece, MSG_DONTWAIT);
        if (n == 0)
            break;
        if (n < 0 && errno != EAGAIN) {
            buf_adds(&got, "<reset>");
            break;
        }
        if (n > 0)
            buf_add(&got, piece, (size_t)n);
        if (until && str_ends(buf_str(&got), until))
            break;
        peer_turn();
    }
    char *date;
    while ((date = strstr(got.data ? got.data : "", "Date: "))) {
        size_t at = (size_t)(date - got.data);
        size_t n = strcspn(date, "\n") + 1;
        memmove(date, date + n, got.len - at - n + 1);
        got.len -= n;
    }
    return buf_str(&got);
}

static inline bool peer_until(const bool *flag, const int *counter, int wanted)
{
    int64_t end = clock_mono_ms() + PEER_WAIT_MS;
    while (clock_mono_ms() < end && !(flag ? *flag : *counter == wanted))
        peer_turn();
    return flag ? *flag : *counter == wanted;
}

static inline const char *peer_ask(const char *request)
{
    int fd = peer_dial();
    peer_say(fd, request);
    shutdown(fd, SHUT_WR);
    const char *answer = peer_hear(fd, NULL);
    close(fd);
    return answer;
}

static inline int peer_status_of(const char *answer)
{
    return str_starts(answer, "HTTP/1.1 ") ? atoi(answer + 9) : -1;
}

// ---- the end of both

static inline void peer_on_closed(void *ctx)
{
    *(bool *)ctx = true;
}

static inline void peer_stop(void)
{
    bool done = false;
    http_server_close(peer.server, peer_on_closed, &done);
    ok(peer_until(&done, NULL, 0), "the server closes");
}

// After the last server has closed.
static inline void peer_close(void)
{
    peer_turn();
    is_int(uv_loop_close(&peer.loop), 0, "nothing is left in the loop");
    ok(rmdir(peer.dir) == 0, "nor in the directory");
}
