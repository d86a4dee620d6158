// SPDX-License-Identifier: Apache-2.0
// Statistics of one sandbox's network: counters, the last refusals, and the hosts that were reached
// last. They are in a small file that its writer maps and the daemon reads at any time. netd writes
// <sandbox>/net.stats; egress writes egress.stats if the sandbox has secrets. Each has its own
// file, so that neither must trust the other.
//
// A writer is exposed to the guest, so the reader trusts nothing in the file. It copies by
// pread(2), since a mapped file that is truncated would end the reader, and net_stats_read checks
// the copy. The counters continue when another process gets the same file.
#pragma once
#include <netinet/in.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/net_rule.h"

#define NET_STATS_MAGIC     0x3173746174737563ULL // "custats1" as the bytes lie
#define NET_STATS_REFUSALS  16
#define NET_STATS_ALLOWED   32
#define NET_STATS_REASONS   32
#define NET_STATS_WHY_BYTES 48

// Refusals, or connections, that differ only in time.
struct net_stats_contact {
    uint64_t seq;     // number of the last one, from 1; 0: this element is empty
    uint64_t count;   // how many
    int64_t at_ns;    // wall-clock time of the last one
    uint32_t address; // 0: only a name is known
    uint16_t port;
    uint8_t proto; // as in an IPv4 header
    uint8_t unused;
    char why[NET_STATS_WHY_BYTES]; // of a refusal; else ""
    char name[NET_NAME_MAX + 3];   // the name asked for, or resolved to the address; or ""
};

struct net_stats_reason {
    uint64_t count;
    char why[NET_STATS_WHY_BYTES];
};

// The layout of the file. Bytes are those of Ethernet frames, as the guest sees them.
struct net_stats {
    uint64_t magic;
    uint64_t received_bytes, received_packets; // by the guest
    uint64_t sent_bytes, sent_packets;
    uint64_t refused;
    struct net_stats_reason reasons[NET_STATS_REASONS]; // used ones first; the last: all others
    struct net_stats_contact refusals[NET_STATS_REFUSALS];
    // The files of older writers end here.
    uint64_t allowed; // connections, and flows of UDP, that the policy allowed
    struct net_stats_contact reached[NET_STATS_ALLOWED];
};

// ---- the writer

// Map a file from net_stats_create (borrowed), or private memory with -1. NULL with an error. The
// file of an older daemon has no room for reached hosts, and they are left out.
struct net_stats *net_stats_map(int fd, struct err *e);
void net_stats_unmap(struct net_stats *s);
// Record a refusal: count its reason, and store it over an equal one, or else over the oldest. The
// number, count and time are set here. Reasons beyond NET_STATS_REASONS share one counter.
void net_stats_refused(struct net_stats *s, struct net_stats_contact *one);
// Record a connection that the policy allowed, in the same way.
void net_stats_reached(struct net_stats *s, struct net_stats_contact *one);

// ---- the reader

// Create the file with its size, or keep one of that size. Return a descriptor for its writer, or
// -1.
int net_stats_create(const char *path, struct err *e);

// Read and check the file, in a few microseconds. Numbers then fit in an int64_t, texts end and are
// printable, and refusals and reached hosts are in order, the newest first, empty ones (seq 0)
// last. ERR_NOT_FOUND if there is no readable file.
int net_stats_read(const char *path, struct net_stats *out, struct err *e);

// Add the refusals of the sandbox's other file, which has no reached hosts, and keep the newest of
// both. Refusals get new
// numbers in their order. So every refusal with a number above an earlier highest number is new to
// a reader; an older one may get such a number too if an equal one came later.
void net_stats_merge(struct net_stats *into, const struct net_stats *more);

// Return "tcp", "udp", "icmp" or "other".
const char *net_stats_proto(uint8_t proto);
// The address as text, in `out`; "" when it is not known.
const char *net_stats_address(const struct net_stats_contact *r, char out[INET_ADDRSTRLEN]);
