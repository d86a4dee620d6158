// SPDX-License-Identifier: Apache-2.0
// cubby selftest: the network policy of a sandbox. Nothing leaves this host: the guest tries to
// reach sockets that the test itself opens.
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/selftest/selftest.h"

#define GUEST_GATEWAY "10.0.2.2" // what the guest sees in place of this host
#define METADATA      "169.254.169.254"
#define ADDRESS_BYTES INET_ADDRSTRLEN

struct listener {
    int fd;
    int port;
    char address[ADDRESS_BYTES];
};

static int listener_open(struct listener *l, struct in_addr address, struct err *e)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr = address};
    socklen_t len = sizeof name;
    l->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (l->fd < 0 || bind(l->fd, (struct sockaddr *)&name, len) < 0 || listen(l->fd, 8) < 0 ||
        getsockname(l->fd, (struct sockaddr *)&name, &len) < 0)
        return err_sys(e, errno, "listen on an address of this host");
    l->port = ntohs(name.sin_port);
    inet_ntop(AF_INET, &address, l->address, sizeof l->address);
    return 0;
}

// Return whether somebody has connected since the last call.
static bool listener_was_reached(const struct listener *l)
{
    int fd auto_close = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC);
    return fd >= 0;
}

// An IPv4 address of this host that other machines could use.
static bool find_address(struct in_addr *out)
{
    struct ifaddrs *all = NULL;
    bool found = false;
    if (getifaddrs(&all) < 0)
        return false;
    for (const struct ifaddrs *one = all; one && !found; one = one->ifa_next) {
        if (!one->ifa_addr || one->ifa_addr->sa_family != AF_INET ||
            (one->ifa_flags & IFF_LOOPBACK) || !(one->ifa_flags & IFF_UP))
            continue;
        struct sockaddr_in name;
        memcpy(&name, one->ifa_addr, sizeof name);
        *out = name.sin_addr;
        found = true;
    }
    freeifaddrs(all);
    return found;
}

// Let the guest connect, and say whether its connection was opened.
static int try_connect(struct selftest *t, const char *address, int port, bool *opened,
                       struct err *e)
{
    struct buf out auto_buf = BUF_INIT;
    char *command auto_free =
        str_printf("if timeout 5 bash -c 'exec 3<>/dev/tcp/%s/%d' 2>/dev/null; then echo open; "
                   "else echo shut; fi",
                   address, port);
    if (guest_run(t, t->id, command, &out, e) < 0)
        return -1;
    *opened = str_starts(buf_str(&out), "open");
    return 0;
}

static int set_policy(struct selftest *t, json_t *policy /* taken */, struct err *e)
{
    int rc = connection_network_set(&t->c, t->id, policy, e);
    json_decref(policy);
    return rc;
}

static int must_be_shut(struct selftest *t, const char *what, const char *address, int port,
                        struct err *e)
{
    bool opened = false;
    if (try_connect(t, address, port, &opened, e) < 0)
        return -1;
    return opened ? err_set(e, ERR_INTERNAL, "the guest reached %s", what) : 0;
}

// The guest never reaches this host's loopback address, whatever its policy is.
static int check_loopback(struct selftest *t, struct err *e)
{
    struct listener inner = {.fd = -1};
    struct in_addr loopback = {.s_addr = htonl(INADDR_LOOPBACK)};
    int rc = listener_open(&inner, loopback, e);
    if (rc == 0)
        rc = must_be_shut(t, "the loopback address of this host", GUEST_GATEWAY, inner.port, e);
    if (rc == 0 && listener_was_reached(&inner))
        rc = err_set(e, ERR_INTERNAL, "a connection of the guest arrived at this host's loopback");
    if (inner.fd >= 0)
        close(inner.fd);
    return rc;
}

// An address that the policy names is open, and it is the only one.
static int check_entry(struct selftest *t, const struct listener *outer, struct err *e)
{
    bool opened = false;
    char *entry auto_free = str_printf("%s:%d", outer->address, outer->port);
    if (set_policy(t, json_pack("{s:s}", "mode", "none"), e) < 0 ||
        must_be_shut(t, "this host under the policy none", outer->address, outer->port, e) < 0)
        return -1;
    if (listener_was_reached(outer))
        return err_set(e, ERR_INTERNAL, "a connection that the policy denies arrived");
    if (set_policy(t, json_pack("{s:s, s:[s]}", "mode", "allow", "allow", entry), e) < 0 ||
        try_connect(t, outer->address, outer->port, &opened, e) < 0)
        return -1;
    if (!opened || !listener_was_reached(outer))
        return err_set(e, ERR_INTERNAL,
                       "the guest did not reach the address that its policy names");
    return must_be_shut(t, "another port than its policy names", outer->address, outer->port ^ 1,
                        e);
}

static int check_counted(struct selftest *t, struct err *e)
{
    json_t *network = connection_network(&t->c, t->id, e);
    const json_t *counters = json_object_get(network, "counters");
    long long refused = (long long)json_integer_value(json_object_get(counters, "refused"));
    json_decref(network);
    if (!err_is(e) && refused == 0)
        err_set(e, ERR_INTERNAL, "refused connections were not counted");
    return err_is(e) ? -1 : 0;
}

int step_network(struct selftest *t, struct buf *said, struct err *e)
{
    struct in_addr address;
    struct listener outer = {.fd = -1};
    if (guest_run(t, t->id, "command -v bash timeout >/dev/null", NULL, e) < 0) {
        *e = ERR_INIT;
        buf_adds(said, "the template has no bash to try connections with");
        return STEP_SKIPPED;
    }
    int rc = check_loopback(t, e);
    if (rc == 0)
        rc = must_be_shut(t, "the metadata address of clouds", METADATA, 80, e);
    bool has_address = rc == 0 && find_address(&address);
    if (has_address)
        rc = listener_open(&outer, address, e);
    if (has_address && rc == 0)
        rc = check_entry(t, &outer, e);
    if (outer.fd >= 0)
        close(outer.fd);
    if (rc == 0)
        rc = check_counted(t, e);
    buf_adds(said, has_address ? "none, allow and public hold; this host's loopback is shut"
                               : "public holds; this host has no address to try the others with");
    return rc;
}
