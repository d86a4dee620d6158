// SPDX-License-Identifier: Apache-2.0
// What is told of one sandbox's network: counters, and the last things that were refused. A small
// file that its writer has mapped and the daemon reads whenever it wants to: one of netd
// (<sandbox>/net.stats), and one of egress where the sandbox has secrets (egress.stats). Each has
// its own, so that neither has to believe the other.
//
// A writer faces the guest, so its reader believes nothing in it: it copies by pread(2) (a file
// that were mapped and then cut would end the reader), and net_stats_read's checks follow. The
// counters go on when another process gets the same file.
#pragma once
#include <stdint.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/net_rule.h"

#define NET_STATS_MAGIC     0x3173746174737563ULL // "custats1" as the bytes lie
#define NET_STATS_REFUSALS  16
#define NET_STATS_REASONS   32
#define NET_STATS_WHY_BYTES 48

// One refusal, with those that were the same in all but their time.
struct net_stats_refusal {
    uint64_t seq;     // of the last: refused counted from 1; 0: there is none
    uint64_t count;   // how many
    int64_t at_ns;    // when the last was, wall clock
    uint32_t address; // 0 when only a name is known
    uint16_t port;
    uint8_t proto; // as in an IPv4 header
    uint8_t unused;
    char why[NET_STATS_WHY_BYTES];
    char name[NET_NAME_MAX + 3]; // that was asked for, or that the address was resolved for; or ""
};

struct net_stats_reason {
    uint64_t count;
    char why[NET_STATS_WHY_BYTES];
};

// As it lies in the file. Bytes are of Ethernet frames, as the guest sees them.
struct net_stats {
    uint64_t magic;
    uint64_t received_bytes, received_packets; // by the guest
    uint64_t sent_bytes, sent_packets;
    uint64_t refused;
    struct net_stats_reason reasons[NET_STATS_REASONS]; // those in use first; the last is the rest
    struct net_stats_refusal refusals[NET_STATS_REFUSALS];
};

// ---- the writer

// Maps a file of net_stats_create's (borrowed), or with -1 memory of its own. NULL with `e`.
struct net_stats *net_stats_map(int fd, struct err *e);
void net_stats_unmap(struct net_stats *s);
// One more refusal: counted by its reason, and kept in the place of the same one or the oldest. Its
// number, count and time are made here. `why` is one of some: past NET_STATS_REASONS all are one.
void net_stats_refused(struct net_stats *s, struct net_stats_refusal *one);

// ---- the reader

// Makes the file of its size, or leaves one that has it; a descriptor for its writer, or -1.
int net_stats_create(const char *path, struct err *e);

// Reads it. Numbers fit in an int64_t; texts end and are printable; refusals stand in their order,
// the newest first, those that are not there last (seq 0). ERR_NOT_FOUND when there is none that
// can be read. A few microseconds.
int net_stats_read(const char *path, struct net_stats *out, struct err *e);

// Adds what another one of the same sandbox was read to have refused; of both the newest are kept.
// Refusals are numbered anew, in their order: whatever is above a number that was the last of all
// once, is told. (One that was before may be told as well, when one like it came after.)
void net_stats_merge(struct net_stats *into, const struct net_stats *more);

// "tcp", "udp", "icmp", or "other".
const char *net_stats_proto(uint8_t proto);
