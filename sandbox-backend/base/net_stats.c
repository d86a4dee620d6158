// SPDX-License-Identifier: Apache-2.0
// Statistics of one sandbox's network.
#include "sandbox-backend/base/net_stats.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"

#define PROTO_ICMP 1
#define OLD_BYTES  offsetof(struct net_stats, allowed)

// ---- the writer

// Lay the file over private memory, which stays behind the end of an older daemon's shorter file:
// a write to a mapped page behind the end of its file would end the writer.
static int lay(struct net_stats *s, int fd, struct err *e)
{
    struct stat st;
    if (fstat(fd, &st) < 0 || st.st_size < (off_t)OLD_BYTES)
        return err_set(e, ERR_INVALID, "--stats-fd: the file is too short");
    size_t len = st.st_size < (off_t)sizeof *s ? OLD_BYTES : sizeof *s;
    if (mmap(s, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
        return err_sys(e, errno, "map the network counters");
    return 0;
}

struct net_stats *net_stats_map(int fd, struct err *e)
{
    struct net_stats *s =
        mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (s == MAP_FAILED) {
        err_sys(e, errno, "map the network counters");
        return NULL;
    }
    if (fd >= 0 && lay(s, fd, e) < 0) {
        net_stats_unmap(s);
        return NULL;
    }
    if (s->magic != NET_STATS_MAGIC) {
        memset(s, 0, sizeof *s);
        s->magic = NET_STATS_MAGIC;
    }
    return s;
}

void net_stats_unmap(struct net_stats *s)
{
    munmap(s, sizeof *s);
}

static void count_reason(struct net_stats *s, const char *why, uint64_t count)
{
    struct net_stats_reason *reason = s->reasons;
    const struct net_stats_reason *last = s->reasons + NET_STATS_REASONS - 1;
    while (reason < last && reason->count > 0 &&
           strncmp(reason->why, why, sizeof reason->why - 1) != 0)
        reason++;
    if (reason->count == 0)
        snprintf(reason->why, sizeof reason->why, "%s", reason == last ? "other" : why);
    reason->count += count;
}

static bool is_same(const struct net_stats_contact *a, const struct net_stats_contact *b)
{
    return a->seq > 0 && a->address == b->address && a->port == b->port && a->proto == b->proto &&
           strcmp(a->why, b->why) == 0 && strcmp(a->name, b->name) == 0;
}

// Store an element over an equal one, or else over the oldest. The number is written last, so that
// a reader in between sees an empty element.
static void keep(struct net_stats_contact *list, size_t count, struct net_stats_contact *one)
{
    struct net_stats_contact *element = list;
    for (struct net_stats_contact *r = list; r < list + count; r++) {
        if (is_same(r, one)) {
            element = r;
            one->count = r->count;
            break;
        }
        if (r->seq < element->seq)
            element = r;
    }
    uint64_t seq = one->seq;
    one->count++;
    one->seq = 0;
    __atomic_store_n(&element->seq, 0, __ATOMIC_RELEASE);
    *element = *one;
    __atomic_store_n(&element->seq, seq, __ATOMIC_RELEASE);
    one->seq = seq;
}

static void number(struct net_stats_contact *one, uint64_t *last)
{
    one->seq = *last + 1;
    one->count = 0;
    one->at_ns = clock_wall_ns();
    __atomic_store_n(last, one->seq, __ATOMIC_RELEASE);
}

void net_stats_refused(struct net_stats *s, struct net_stats_contact *one)
{
    count_reason(s, one->why, 1);
    number(one, &s->refused);
    keep(s->refusals, NET_STATS_REFUSALS, one);
}

void net_stats_reached(struct net_stats *s, struct net_stats_contact *one)
{
    number(one, &s->allowed);
    keep(s->reached, NET_STATS_ALLOWED, one);
}

// ---- the reader

int net_stats_create(const char *path, struct err *e)
{
    int fd auto_close = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return err_sys(e, errno, "make %s", path);
    // With its blocks: a write through a mapping to a full disk would end the writer by SIGBUS.
    int sys = posix_fallocate(fd, 0, sizeof(struct net_stats));
    if (sys)
        return err_sys(e, sys, "make %s", path);
    return steal_fd(&fd);
}

// Make the contents of the file harmless.

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

static void check_contact(struct net_stats_contact *r, const struct net_stats_contact *again,
                          uint64_t last, int64_t now)
{
    // An element that was being written is reported at the next read.
    if (r->seq == 0 || r->seq > last || memcmp(r, again, sizeof *r) != 0) {
        *r = (struct net_stats_contact){0};
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
    const struct net_stats_contact *left = a, *right = b;
    return (left->seq < right->seq) - (left->seq > right->seq);
}

static void check_list(struct net_stats_contact *list, const struct net_stats_contact *again,
                       size_t count, uint64_t last)
{
    for (size_t i = 0; i < count; i++)
        check_contact(&list[i], &again[i], last, clock_wall_ns());
    qsort(list, count, sizeof *list, by_age);
}

static void check(struct net_stats *s, const struct net_stats *again)
{
    uint64_t *const numbers[] = {&s->received_bytes, &s->received_packets, &s->sent_bytes,
                                 &s->sent_packets,   &s->refused,          &s->allowed};
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        bound(numbers[i]);
    for (size_t i = 0; i < NET_STATS_REASONS; i++) {
        bound(&s->reasons[i].count);
        make_printable(s->reasons[i].why, sizeof s->reasons[i].why);
    }
    check_list(s->refusals, again->refusals, NET_STATS_REFUSALS, s->refused);
    check_list(s->reached, again->reached, NET_STATS_ALLOWED, s->allowed);
}

// Read the file, whose end is missing if an older writer has it.
static bool read_all(int fd, struct net_stats *out)
{
    memset(out, 0, sizeof *out);
    ssize_t got = pread(fd, out, sizeof *out, 0);
    return got == sizeof *out || got == OLD_BYTES;
}

int net_stats_read(const char *path, struct net_stats *out, struct err *e)
{
    struct net_stats *again auto_free = xmalloc(sizeof *again);
    int fd auto_close = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool is_read = fd >= 0 && read_all(fd, out) && read_all(fd, again);
    if (!is_read || out->magic != NET_STATS_MAGIC) {
        *out = (struct net_stats){0};
        return err_set(e, ERR_NOT_FOUND, "nothing is known of this sandbox's network");
    }
    check(out, again);
    return 0;
}

// ---- the two files of a sandbox

// Return a lower bound of the refusals since then; all if the times in the file are out of order.
static uint64_t count_since(const struct net_stats *s, int64_t at_ns)
{
    uint64_t count = 0;
    for (size_t i = 0; i < NET_STATS_REFUSALS; i++) {
        const struct net_stats_contact *r = &s->refusals[i];
        if (r->seq == 0 || r->at_ns <= at_ns)
            break;
        count = s->refused - r->seq + 1;
    }
    return count;
}

static void number_anew(struct net_stats_contact *r, const struct net_stats *other)
{
    if (r->seq == 0)
        return;
    r->seq += other->refused - count_since(other, r->at_ns);
    bound(&r->seq);
}

void net_stats_merge(struct net_stats *into, const struct net_stats *more)
{
    struct net_stats_contact all[2 * NET_STATS_REFUSALS];
    for (size_t i = 0; i < NET_STATS_REFUSALS; i++) {
        all[i] = into->refusals[i];
        all[NET_STATS_REFUSALS + i] = more->refusals[i];
        number_anew(&all[i], more);
        number_anew(&all[NET_STATS_REFUSALS + i], into);
    }
    qsort(all, ARRAY_LEN(all), sizeof *all, by_age);
    memcpy(into->refusals, all, sizeof into->refusals);
    for (size_t i = 0; i < NET_STATS_REASONS; i++)
        if (more->reasons[i].count > 0)
            count_reason(into, more->reasons[i].why, more->reasons[i].count);
    for (size_t i = 0; i < NET_STATS_REASONS; i++)
        bound(&into->reasons[i].count);
    into->refused += more->refused;
    bound(&into->refused);
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

const char *net_stats_address(const struct net_stats_contact *r, char out[INET_ADDRSTRLEN])
{
    const struct in_addr in = {htonl(r->address)};
    return r->address ? inet_ntop(AF_INET, &in, out, INET_ADDRSTRLEN) : "";
}
