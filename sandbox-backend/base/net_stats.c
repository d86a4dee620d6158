// SPDX-License-Identifier: Apache-2.0
// What netd tells of one sandbox's network.
#include "sandbox-backend/base/net_stats.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"

#define PROTO_ICMP 1

int net_stats_create(const char *path, struct err *e)
{
    int fd auto_close = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(struct net_stats)) < 0)
        return err_sys(e, errno, "make %s", path);
    return steal_fd(&fd);
}

// ---- what came from the file is made harmless

static void bound(uint64_t *number)
{
    if (*number > INT64_MAX)
        *number = INT64_MAX;
}

static void make_printable(char *text, size_t size)
{
    text[size - 1] = '\0';
    for (char *c = text; *c; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
}

static void check_refusal(struct net_stats_refusal *r, const struct net_stats_refusal *again,
                          uint64_t refused, int64_t now)
{
    // One that was being written while it was read is told the next time.
    if (r->seq == 0 || r->seq > refused || memcmp(r, again, sizeof *r) != 0) {
        *r = (struct net_stats_refusal){0};
        return;
    }
    bound(&r->count);
    if (r->at_ns < 0 || r->at_ns > now)
        r->at_ns = now;
    make_printable(r->why, sizeof r->why);
    make_printable(r->name, sizeof r->name);
}

static int by_age(const void *a, const void *b)
{
    const struct net_stats_refusal *left = a, *right = b;
    return (left->seq < right->seq) - (left->seq > right->seq);
}

static void check(struct net_stats *s, const struct net_stats *again)
{
    uint64_t *const numbers[] = {&s->received_bytes, &s->received_packets, &s->sent_bytes,
                                 &s->sent_packets, &s->refused};
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        bound(numbers[i]);
    for (size_t i = 0; i < NET_STATS_REASONS; i++) {
        bound(&s->reasons[i].count);
        make_printable(s->reasons[i].why, sizeof s->reasons[i].why);
    }
    for (size_t i = 0; i < NET_STATS_REFUSALS; i++)
        check_refusal(&s->refusals[i], &again->refusals[i], s->refused, clock_wall_ns());
    qsort(s->refusals, NET_STATS_REFUSALS, sizeof *s->refusals, by_age);
}

int net_stats_read(const char *path, struct net_stats *out, struct err *e)
{
    struct net_stats *again auto_free = xmalloc(sizeof *again);
    int fd auto_close = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool is_read = fd >= 0 && pread(fd, out, sizeof *out, 0) == sizeof *out &&
                   pread(fd, again, sizeof *again, 0) == sizeof *again;
    if (!is_read || out->magic != NET_STATS_MAGIC) {
        *out = (struct net_stats){0};
        return err_set(e, ERR_NOT_FOUND, "nothing is known of this sandbox's network");
    }
    check(out, again);
    return 0;
}

const char *net_stats_proto(uint8_t proto)
{
    switch (proto) {
    case NET_PROTO_TCP:
        return "tcp";
    case NET_PROTO_UDP:
        return "udp";
    case PROTO_ICMP:
        return "icmp";
    default:
        return "other";
    }
}
