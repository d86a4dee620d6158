// SPDX-License-Identifier: Apache-2.0
// This host's own addresses: rtnetlink(7).
#include "sandbox-backend/netd/policy/hostaddr.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/log/log.h"
#include "sandbox-backend/netd/wire/wire.h"

#define DUMP_ATTEMPTS 5
#define ANSWER_BYTES  32768 // the most that the kernel fills in one read of a dump

struct list {
    struct cidr *items; // owned
    size_t count;
};

static int open_netlink(uint32_t groups, int flags, struct err *e)
{
    struct sockaddr_nl self = {.nl_family = AF_NETLINK, .nl_groups = groups};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | flags, NETLINK_ROUTE);
    if (fd < 0)
        return err_sys(e, errno, "open a netlink socket");
    if (bind(fd, (struct sockaddr *)&self, sizeof(self)) < 0) {
        err_sys(e, errno, "bind a netlink socket");
        close(fd);
        return -1;
    }
    return fd;
}

// Strict checking makes the kernel select the table. A kernel without it sends all tables, and
// add_route() selects.
static int request_dump(int fd, struct err *e)
{
    struct {
        struct nlmsghdr head;
        struct rtmsg route;
        struct rtattr attr;
        uint32_t table;
    } q = {
        .head = {.nlmsg_len = sizeof(q),
                 .nlmsg_type = RTM_GETROUTE,
                 .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
        .route = {.rtm_family = AF_INET, .rtm_table = RT_TABLE_LOCAL},
        .attr = {.rta_len = RTA_LENGTH(sizeof(uint32_t)), .rta_type = RTA_TABLE},
        .table = RT_TABLE_LOCAL,
    };
    int on = 1;
    setsockopt(fd, SOL_NETLINK, NETLINK_GET_STRICT_CHK, &on, sizeof(on));
    if (send(fd, &q, sizeof(q), 0) < 0)
        return err_sys(e, errno, "ask for the local routes");
    return 0;
}

static int add_route(struct list *l, const struct nlmsghdr *m, struct err *e)
{
    const struct rtmsg *route = NLMSG_DATA(m);
    bool is_ours = route->rtm_type == RTN_LOCAL || route->rtm_type == RTN_BROADCAST ||
                   route->rtm_type == RTN_ANYCAST;
    if (m->nlmsg_type != RTM_NEWROUTE || route->rtm_table != RT_TABLE_LOCAL || !is_ours ||
        route->rtm_dst_len > 32)
        return 0;
    struct cidr c = {.bits = route->rtm_dst_len};
    size_t left = RTM_PAYLOAD(m);
    for (const struct rtattr *a = RTM_RTA(route); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
        if (a->rta_type == RTA_DST && RTA_PAYLOAD(a) == 4)
            c.address = wire_get32(RTA_DATA(a));
    }
    if (l->count == POLICY_HOST_MAX)
        return err_set(e, ERR_LIMIT, "this host has more than %d local prefixes", POLICY_HOST_MAX);
    l->items = xrealloc(l->items, (l->count + 1) * sizeof(c));
    l->items[l->count++] = c;
    return 0;
}

// Return 1 at the end of the dump, 0 when more follows, -1 on failure.
static int take_answer(struct list *l, const struct nlmsghdr *m, size_t left, struct err *e)
{
    for (; NLMSG_OK(m, left); m = NLMSG_NEXT(m, left)) {
        if (m->nlmsg_type == NLMSG_DONE)
            return 1;
        if (m->nlmsg_type == NLMSG_ERROR)
            return err_set(e, ERR_INTERNAL, "the kernel refused to list the local routes");
        if (m->nlmsg_flags & NLM_F_DUMP_INTR)
            return err_set(e, ERR_CONFLICT, "the local routes changed while they were read");
        if (add_route(l, m, e) < 0)
            return -1;
    }
    return 0;
}

static int read_dump(int fd, struct list *l, struct err *e)
{
    union {
        struct nlmsghdr head;
        char bytes[ANSWER_BYTES];
    } *answer auto_free = xmalloc(sizeof(*answer));
    int rc = 0;
    while (rc == 0) {
        ssize_t n = recv(fd, answer->bytes, sizeof(answer->bytes), 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return err_sys(e, n < 0 ? errno : EPIPE, "read the local routes");
        rc = take_answer(l, &answer->head, (size_t)n, e);
    }
    return rc < 0 ? -1 : 0;
}

static int enumerate_once(struct hostaddr *h, struct err *e)
{
    struct list l = {0};
    int fd auto_close = open_netlink(0, 0, e);
    if (fd < 0 || request_dump(fd, e) < 0 || read_dump(fd, &l, e) < 0) {
        free(l.items);
        return -1;
    }
    policy_set_host(h->policy, l.items, l.count);
    h->refresh_at = clock_mono_ms() + HOSTADDR_REFRESH_MS;
    return 0;
}

// A change of the interfaces can interrupt a dump; then another try gets the whole list.
int hostaddr_renew(struct hostaddr *h, struct err *e)
{
    for (int i = 1; i < DUMP_ATTEMPTS; i++) {
        struct err first = ERR_INIT;
        if (enumerate_once(h, &first) == 0)
            return 0;
        if (first.code != ERR_CONFLICT)
            break;
    }
    return enumerate_once(h, e);
}

int hostaddr_init(struct hostaddr *h, struct policy *policy, struct err *e)
{
    struct err ignored = ERR_INIT;
    *h = (struct hostaddr){.policy = policy, .poll_index = -1};
    h->events_fd = open_netlink(RTMGRP_IPV4_IFADDR, SOCK_NONBLOCK, &ignored);
    return hostaddr_renew(h, e);
}

void hostaddr_fini(struct hostaddr *h)
{
    if (h->events_fd >= 0)
        close(h->events_fd);
    h->events_fd = -1;
}

void hostaddr_fill(struct hostaddr *h, struct pollset *set, int *timeout)
{
    int64_t left = h->refresh_at - clock_mono_ms();
    if (left < 0)
        left = 0;
    if (*timeout < 0 || left < *timeout)
        *timeout = (int)left;
    h->poll_index = h->events_fd >= 0 ? pollset_add(set, h->events_fd, POLLIN) : -1;
}

// The content of the notices does not matter, because the whole list is read again. Nor does it
// matter if some were lost (ENOBUFS), which also makes the socket readable.
static void drain(int fd)
{
    char ignored[4096];
    while (recv(fd, ignored, sizeof(ignored), MSG_DONTWAIT) >= 0 || errno == ENOBUFS)
        continue;
}

// When the list cannot be read, the old one stays until the next refresh or notice.
void hostaddr_poll(struct hostaddr *h, const struct pollset *set)
{
    bool is_changed = h->poll_index >= 0 && pollset_events(set, h->poll_index);
    if (is_changed)
        drain(h->events_fd);
    if (!is_changed && clock_mono_ms() < h->refresh_at)
        return;
    struct err e = ERR_INIT;
    h->refresh_at = clock_mono_ms() + HOSTADDR_REFRESH_MS / 10;
    if (hostaddr_renew(h, &e) < 0)
        log_error("hostaddr.failed", "error=\"%s\"", e.msg);
}
