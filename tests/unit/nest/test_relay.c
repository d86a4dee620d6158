// SPDX-License-Identifier: Apache-2.0
// vm.net of a guest without a network card.
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/nest/relay.h"
#include "tests/lib/harness/tap.h"

#define BIG (1 << 20) // more than the buffers of both sides hold

static struct relay *relay;
static char path[] = "/tmp/cubby-relay-XXXXXX";

// Let the relay serve what has come, until nothing comes for a moment.
static void turn(void)
{
    static struct pollfd fds[RELAY_FDS];
    for (;;) {
        size_t count = relay_watch(relay, fds);
        if (poll(fds, count, 20) <= 0)
            return;
        relay_serve(relay, fds);
    }
}

static int client(const char *line)
{
    int fd = fd_connect_unix(path);
    ok(fd >= 0 && send(fd, line, strlen(line), 0) == (ssize_t)strlen(line), "a client: %.12s",
       line);
    turn();
    return fd;
}

static void reads(int fd, const char *wanted)
{
    char text[64] = "";
    turn();
    ssize_t n = recv(fd, text, sizeof text - 1, MSG_DONTWAIT);
    text[n > 0 ? n : 0] = '\0';
    is_str(text, wanted, "it reads this");
}

static void refused(const char *line, const char *answer)
{
    int fd auto_close = client(line);
    char byte;
    reads(fd, answer);
    ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);
    ok(n == 0 || (n < 0 && errno == ECONNRESET), "and the connection ends");
}

static int listen_tcp(int *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ok(bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(fd, 8) == 0, "a port listens");
    getsockname(fd, (struct sockaddr *)&at, &len);
    *port = ntohs(at.sin_port);
    return fd;
}

static void test_both_ways(int listener)
{
    int fd auto_close = client("CONNECT 49983\nearly");
    int peer auto_close = accept(listener, NULL, NULL);
    reads(fd, "OK\n");
    reads(peer, "early");
    ok(send(peer, "answer", 6, 0) == 6, "the port answers");
    reads(fd, "answer");
    shutdown(fd, SHUT_WR);
    turn();
    char byte;
    is_int(recv(peer, &byte, 1, MSG_DONTWAIT), 0, "an end of file is passed on");
    ok(send(peer, "late", 4, 0) == 4, "for its direction alone");
    reads(fd, "late");
}

// Bytes that the reader does not take wait, and none is lost.
static void test_much(int listener)
{
    int fd auto_close = client("CONNECT 49983\n");
    int peer auto_close = accept(listener, NULL, NULL);
    char *block auto_free = xcalloc(1, BIG);
    size_t sent = 0, got = 0;
    reads(fd, "OK\n");
    for (int idle = 0; got < BIG && idle < 200; idle++) {
        ssize_t n = sent < BIG ? send(peer, block, BIG - sent, MSG_DONTWAIT) : 0;
        sent += n > 0 ? (size_t)n : 0;
        turn();
        while ((n = recv(fd, block, BIG, MSG_DONTWAIT)) > 0)
            got += (size_t)n;
    }
    is_int((long long)got, BIG, "all of it arrives");
}

static void test_a_client_that_goes(int listener)
{
    int fd = client("CONNECT 49983\n");
    int peer auto_close = accept(listener, NULL, NULL);
    char byte;
    close(fd);
    turn();
    is_int(recv(peer, &byte, 1, MSG_DONTWAIT), 0, "the port learns that its client has gone");
    static struct pollfd fds[RELAY_FDS];
    is_int((long long)relay_watch(relay, fds), 1, "and nothing of it is left");
}

int main(void)
{
    struct err e = ERR_INIT;
    int port = 0;
    int other auto_close = mkstemp(path);
    int vmnet auto_close = fd_listen_unix(path, &e);
    int listener auto_close = listen_tcp(&port);
    const struct relay_port ports[RELAY_PORTS] = {{49983, port}};
    relay = relay_new(vmnet, ports);
    test_both_ways(listener);
    test_much(listener);
    test_a_client_that_goes(listener);
    refused("CONNECT 1\n", "ERR refused\n");
    refused("CONNECT 0\n", "ERR bad-request\n");
    refused("HELLO\n", "ERR bad-request\n");
    refused("CONNECT 49983 and a line that never ends, it seems", "ERR bad-request\n");
    relay_free(relay);
    unlink(path);
    return tap_done();
}
