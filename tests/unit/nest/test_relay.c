// SPDX-License-Identifier: Apache-2.0
// vm.net of a guest without a network card.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
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
static char envd_path[] = "/tmp/cubby-relay-envd-XXXXXX";

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

static int listen_tcp(const void *at, socklen_t len, int *port)
{
    struct sockaddr_in6 bound; // the port is at the same offset in both kinds of address
    int family = ((const struct sockaddr *)at)->sa_family;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ok(bind(fd, at, len) == 0 && listen(fd, 8) == 0, "a port listens");
    getsockname(fd, (struct sockaddr *)&bound, &len);
    *port = ntohs(bound.sin6_port);
    return fd;
}

static void test_a_port_of_the_loopback(const void *at, socklen_t len)
{
    int port = 0;
    int listener auto_close = listen_tcp(at, len, &port);
    char *line auto_free = str_printf("CONNECT %d\nearly", port);
    int fd auto_close = client(line);
    turn();
    int peer auto_close = accept(listener, NULL, NULL);
    reads(fd, "OK\n");
    reads(peer, "early");
}

// The daemon asks envd's relay for a port after the port itself was refused.
static void test_the_port_of_envds_relay(void)
{
    const struct sockaddr_in at = {.sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int port = 0;
    int listener auto_close = listen_tcp(&at, sizeof at, &port);
    char *line auto_free = str_printf("CONNECT %d\n", port);
    int fd auto_close = client("CONNECT 49982\n");
    reads(fd, "OK\n");
    ok(send(fd, line, strlen(line), 0) > 0, "a second line");
    turn();
    int peer auto_close = accept(listener, NULL, NULL);
    reads(fd, "OK\n");
    ok(send(fd, "hi", 2, 0) == 2, "the connection is open");
    reads(peer, "hi");
    refused("CONNECT 49982\nCONNECT 1\n", "OK\nERR refused\n");
}

// A relay that has no descriptor left leaves poll alone, and accepts when there is one again.
static void test_no_descriptors(int listener)
{
    static struct pollfd fds[RELAY_FDS];
    struct rlimit usual;
    getrlimit(RLIMIT_NOFILE, &usual);
    int fd auto_close = fd_connect_unix(path);
    int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(next); // the lowest free descriptor
    const struct rlimit none = {.rlim_cur = (rlim_t)next, .rlim_max = usual.rlim_max};
    ok(fd >= 0 && setrlimit(RLIMIT_NOFILE, &none) == 0, "no further descriptor");
    is_int(relay_wait_ms(relay), -1, "a relay waits for events alone");
    is_int(poll(fds, relay_watch(relay, fds), 1000), 1, "a client waits");
    relay_serve(relay, fds);
    ok(relay_wait_ms(relay) > 0, "it waits a while");
    is_int((long long)relay_watch(relay, fds), 1, "without a connection");
    is_int(fds[0].fd, -1, "and does not look at its listener");
    setrlimit(RLIMIT_NOFILE, &usual);
    relay_serve(relay, fds);
    ok(send(fd, "CONNECT 49983\n", 14, 0) == 14, "the client asks");
    turn();
    int peer auto_close = accept(listener, NULL, NULL);
    reads(fd, "OK\n");
    is_int(relay_wait_ms(relay), -1, "the relay works again");
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
    const struct sockaddr_in v4 = {.sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int other auto_close = mkstemp(path), one_more auto_close = mkstemp(envd_path);
    int vmnet auto_close = fd_listen_unix(path, &e);
    int listener auto_close = fd_listen_unix(envd_path, &e);
    relay = relay_new(vmnet, envd_path);
    test_no_descriptors(listener);
    test_a_port_of_the_loopback(&v4, sizeof v4);
    if (access("/proc/net/if_inet6", F_OK) == 0)
        test_a_port_of_the_loopback(&v6, sizeof v6);
    test_the_port_of_envds_relay();
    test_both_ways(listener);
    test_much(listener);
    test_a_client_that_goes(listener);
    refused("CONNECT 1\n", "ERR refused\n");
    refused("CONNECT 0\n", "ERR bad-request\n");
    refused("HELLO\n", "ERR bad-request\n");
    refused("CONNECT 49983 and a line that never ends, it seems", "ERR bad-request\n");
    relay_free(relay);
    unlink(path);
    unlink(envd_path);
    return tap_done();
}
