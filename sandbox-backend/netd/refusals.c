// SPDX-License-Identifier: Apache-2.0
// What is told of the network.
#include "sandbox-backend/netd/refusals.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/log/log.h"

// ---- the file

static int map_file(struct refusals *r, int fd, struct err *e)
{
    struct stat st;
    if (fstat(fd, &st) < 0 || st.st_size < (off_t)sizeof *r->stats)
        return err_set(e, ERR_INVALID, "--stats-fd: the file is too short");
    void *at = mmap(NULL, sizeof *r->stats, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return err_sys(e, errno, "map the counters");
    r->stats = at;
    r->is_mapped = true;
    return 0;
}

int refusals_init(struct refusals *r, int fd, struct err *e)
{
    *r = (struct refusals){.tokens = REFUSALS_BURST, .refilled_at = clock_mono_ms()};
    if (fd < 0)
        r->stats = xcalloc(1, sizeof *r->stats);
    else if (map_file(r, fd, e) < 0)
        return -1;
    if (r->stats->magic != NET_STATS_MAGIC) {
        memset(r->stats, 0, sizeof *r->stats);
        r->stats->magic = NET_STATS_MAGIC;
    }
    return 0;
}

void refusals_fini(struct refusals *r)
{
    if (r->is_mapped)
        munmap(r->stats, sizeof *r->stats);
    else
        free(r->stats);
    r->stats = NULL;
}

static void count_reason(struct net_stats *s, const char *why)
{
    struct net_stats_reason *reason = s->reasons;
    const struct net_stats_reason *last = s->reasons + NET_STATS_REASONS - 1;
    while (reason < last && reason->count > 0 &&
           strncmp(reason->why, why, sizeof reason->why - 1) != 0)
        reason++;
    if (reason->count++ == 0)
        snprintf(reason->why, sizeof reason->why, "%s", reason == last ? "other" : why);
}

static bool is_same(const struct net_stats_refusal *a, const struct net_stats_refusal *b)
{
    return a->seq > 0 && a->address == b->address && a->port == b->port && a->proto == b->proto &&
           strcmp(a->why, b->why) == 0 && strcmp(a->name, b->name) == 0;
}

// In the place of the same one, else of the oldest. Its number is written last: a reader that comes
// in between sees none.
static void keep(struct net_stats *s, struct net_stats_refusal *one)
{
    struct net_stats_refusal *place = s->refusals;
    for (struct net_stats_refusal *r = s->refusals; r < s->refusals + NET_STATS_REFUSALS; r++) {
        if (is_same(r, one)) {
            place = r;
            one->count = r->count;
            break;
        }
        if (r->seq < place->seq)
            place = r;
    }
    uint64_t seq = one->seq;
    one->count++;
    one->seq = 0;
    __atomic_store_n(&place->seq, 0, __ATOMIC_RELEASE);
    *place = *one;
    __atomic_store_n(&place->seq, seq, __ATOMIC_RELEASE);
}

// ---- the log

static bool take_token(struct refusals *r)
{
    int64_t now = clock_mono_ms();
    int64_t gained = (now - r->refilled_at) / REFUSALS_GAP_MS;
    if (gained > 0) {
        r->refilled_at += gained * REFUSALS_GAP_MS;
        r->tokens = gained >= REFUSALS_BURST - r->tokens ? REFUSALS_BURST : r->tokens + (int)gained;
    }
    if (r->tokens == 0)
        return false;
    r->tokens--;
    return true;
}

static void write_line(struct refusals *r, const struct net_stats_refusal *one)
{
    if (!take_token(r)) {
        r->suppressed++;
        return;
    }
    char dst[INET_ADDRSTRLEN] = "-";
    struct in_addr address = {htonl(one->address)};
    inet_ntop(AF_INET, &address, dst, sizeof dst);
    log_info("outward.refused", "why=\"%s\" proto=%s dst=%s port=%u name=\"%s\" suppressed=%lu",
             one->why, net_stats_proto(one->proto), dst, one->port, one->name, r->suppressed);
    r->suppressed = 0;
}

// ---- for the others

void refusals_add(struct refusals *r, const char *why, const struct endpoint *to, const char *name)
{
    struct net_stats_refusal one = {.seq = r->stats->refused + 1, .at_ns = clock_wall_ns()};
    snprintf(one.why, sizeof one.why, "%s", why);
    snprintf(one.name, sizeof one.name, "%s", name ? name : "");
    if (to) {
        one.address = to->address;
        one.port = to->port;
        one.proto = to->proto;
    }
    count_reason(r->stats, one.why);
    __atomic_store_n(&r->stats->refused, one.seq, __ATOMIC_RELEASE);
    write_line(r, &one);
    keep(r->stats, &one);
}

void refusals_note(struct refusals *r, const struct filter_result *f)
{
    const struct packet *p = &f->packet;
    const struct endpoint to = {p->dst, p->dport, p->proto};
    if (!f->is_noise)
        refusals_add(r, f->why, p->type == WIRE_TYPE_IPV4 ? &to : NULL, NULL);
}
