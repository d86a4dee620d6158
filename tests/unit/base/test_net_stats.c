// SPDX-License-Identifier: Apache-2.0
// The refusals of two processes of one sandbox, joined; and the hosts that were reached.
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/net_stats.h"
#include "tests/lib/harness/tap.h"

static struct net_stats a, b;

static void put(struct net_stats *s, size_t place, uint64_t seq, int64_t at_ns, const char *why)
{
    struct net_stats_contact *r = &s->refusals[place];
    *r = (struct net_stats_contact){.seq = seq, .count = 1, .at_ns = at_ns};
    snprintf(r->why, sizeof r->why, "%s", why);
    if (s->refused < seq)
        s->refused = seq;
}

static void reason(struct net_stats *s, size_t place, const char *why, uint64_t count)
{
    s->reasons[place].count = count;
    snprintf(s->reasons[place].why, sizeof s->reasons[place].why, "%s", why);
}

static void clear(void)
{
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
}

static void test_order(void)
{
    clear();
    put(&a, 0, 2, 30, "a2");
    put(&a, 1, 1, 10, "a1");
    put(&b, 0, 2, 40, "b2");
    put(&b, 1, 1, 20, "b1");
    net_stats_merge(&a, &b);
    static const char *const WANTED[] = {"b2", "a2", "b1", "a1"};
    for (size_t i = 0; i < ARRAY_LEN(WANTED); i++)
        ok(strcmp(a.refusals[i].why, WANTED[i]) == 0 && a.refusals[i].seq == 4 - i,
           "%zu: %s, number %llu", i, a.refusals[i].why, (unsigned long long)a.refusals[i].seq);
    ok(a.refused == 4 && a.refusals[4].seq == 0, "four, and no more");
}

// Refusals after a moment have numbers above the last one of that moment.
static void test_since(void)
{
    clear();
    put(&a, 0, 5, 100, "old");
    put(&b, 0, 3, 90, "old");
    net_stats_merge(&a, &b);
    uint64_t then = a.refused;
    clear();
    put(&a, 0, 6, 200, "new");
    put(&a, 1, 5, 100, "old");
    put(&b, 0, 5, 300, "new"); // one like it before: 4
    put(&b, 1, 3, 90, "old");
    net_stats_merge(&a, &b);
    ok(a.refused == 11 && a.refusals[0].seq > then && a.refusals[1].seq > then, "the new ones");
    ok(strcmp(a.refusals[0].why, "new") == 0 && strcmp(a.refusals[1].why, "new") == 0, "are first");
}

static void test_nothing_more(void)
{
    clear();
    put(&a, 0, 7, 100, "x");
    put(&a, 1, 3, 50, "y");
    reason(&a, 0, "x", 7);
    struct net_stats *before = xmalloc(sizeof *before);
    *before = a;
    net_stats_merge(&a, &b);
    ok(memcmp(&a, before, sizeof a) == 0, "with nothing all is as it was");
    net_stats_merge(&b, before);
    ok(b.refused == 7 && b.refusals[0].seq == 7 && b.refusals[1].seq == 3, "the other way round");
    free(before);
}

static void test_reasons(void)
{
    char why[16];
    clear();
    for (size_t i = 0; i < NET_STATS_REASONS; i++) {
        snprintf(why, sizeof why, "a%zu", i);
        reason(&a, i, i + 1 < NET_STATS_REASONS ? why : "other", 1);
        snprintf(why, sizeof why, "b%zu", i);
        reason(&b, i, i == 0 ? "a0" : why, 2);
    }
    net_stats_merge(&a, &b);
    ok(a.reasons[0].count == 3, "the same one is one");
    ok(a.reasons[NET_STATS_REASONS - 1].count == 1 + 2 * (NET_STATS_REASONS - 1) &&
           strcmp(a.reasons[NET_STATS_REASONS - 1].why, "other") == 0,
       "what finds no place is the rest");
}

// As hostile writers may have them once they were read.
static void test_large(void)
{
    clear();
    for (size_t i = 0; i < NET_STATS_REFUSALS; i++) {
        put(&a, i, INT64_MAX - i, (int64_t)i, "a");
        put(&b, i, INT64_MAX - i, (int64_t)i, "b");
    }
    reason(&a, 0, "a", INT64_MAX);
    reason(&b, 0, "a", INT64_MAX);
    net_stats_merge(&a, &b);
    bool fits = a.refused <= INT64_MAX && a.reasons[0].count <= INT64_MAX;
    for (size_t i = 0; i < NET_STATS_REFUSALS; i++)
        fits = fits && a.refusals[i].seq <= INT64_MAX;
    ok(fits, "numbers fit in an int64_t");
}

// ---- reached hosts

static void reach(struct net_stats *s, uint16_t port)
{
    struct net_stats_contact one = {.address = 1, .port = port, .proto = NET_PROTO_TCP};
    net_stats_reached(s, &one);
}

static void test_reached(void)
{
    char path[] = "/tmp/net_stats.XXXXXX";
    struct err e = ERR_INIT;
    close(mkstemp(path));
    int fd = net_stats_create(path, &e);
    struct net_stats *s = net_stats_map(fd, &e);
    for (uint16_t port = 1; port <= NET_STATS_ALLOWED + 2; port++)
        reach(s, port);
    reach(s, NET_STATS_ALLOWED);
    ok(net_stats_read(path, &a, &e) == 0 && a.allowed == NET_STATS_ALLOWED + 3, "all are counted");
    ok(a.reached[0].port == NET_STATS_ALLOWED && a.reached[0].count == 2 && a.refused == 0,
       "an equal one is one, and the newest");
    ok(a.reached[NET_STATS_ALLOWED - 1].port == 3, "the oldest ones made room");
    net_stats_unmap(s);
    ok(truncate(path, offsetof(struct net_stats, allowed)) == 0 &&
           net_stats_read(path, &a, &e) == 0 && a.allowed == 0 && a.reached[0].seq == 0,
       "the file of an older writer has none");
    s = net_stats_map(fd, &e);
    ok(s != NULL, "an older daemon's file is good enough for a writer");
    for (uint16_t port = 1; port <= NET_STATS_ALLOWED; port++)
        reach(s, port);
    struct net_stats_contact one = {.port = 7, .why = "w"};
    net_stats_refused(s, &one);
    ok(net_stats_read(path, &a, &e) == 0 && a.refusals[0].port == 7 && a.allowed == 0,
       "its refusals are there");
    net_stats_unmap(s);
    ok(truncate(path, offsetof(struct net_stats, allowed) + 1) == 0 &&
           net_stats_read(path, &a, NULL) < 0,
       "a file that is cut off is none");
    close(fd);
    unlink(path);
}

int main(void)
{
    test_order();
    test_since();
    test_nothing_more();
    test_reasons();
    test_large();
    test_reached();
    return tap_done();
}
