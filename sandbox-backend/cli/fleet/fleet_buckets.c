// SPDX-License-Identifier: Apache-2.0
// The node that a name stands for. HAProxy hashes the name to one of BUCKETS numbers, and rules say
// which node has a number first and which one has it if the first is not there (rendezvous
// hashing). HAProxy's own consistent hash would repeat a request at two nodes only, and not always
// at those that it uses while a node is not there.
#include <stdint.h>

#include "sandbox-backend/cli/fleet/fleet.h"

#define BUCKETS  256 // as in the frontend of fleet_config.c
#define PER_LINE 32  // HAProxy takes 64 words in a line

// Return the node's number for a bucket: FNV-1a, mixed so that similar names are far apart.
static uint64_t number_of(const struct node *n, unsigned bucket)
{
    uint64_t hash = 14695981039346656037u;
    for (const char *c = n->name; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    hash = (hash ^ (bucket + 256)) * 1099511628211u;
    hash = (hash ^ (hash >> 33)) * 0xff51afd7ed558ccdu;
    hash = (hash ^ (hash >> 33)) * 0xc4ceb9fe1a85ec53u;
    return hash ^ (hash >> 33);
}

// Return how many nodes have the bucket before this one.
static size_t place_of(const struct nodes *nodes, const struct node *n, unsigned bucket)
{
    size_t before = 0;
    uint64_t own = number_of(n, bucket);
    for (size_t i = 0; i < nodes->count; i++)
        before += !*nodes->all[i].moved && number_of(&nodes->all[i], bucket) > own;
    return before;
}

static void add_rules(const struct nodes *nodes, const struct node *n, size_t place,
                      struct buf *out)
{
    size_t count = 0;
    for (unsigned bucket = 0; bucket < BUCKETS; bucket++) {
        if (place_of(nodes, n, bucket) != place)
            continue;
        if (count % PER_LINE == 0)
            buf_printf(out, "%s    use-server %s if { var(txn.bucket) -m int", count ? " }\n" : "",
                       n->name);
        buf_printf(out, " %u", bucket);
        count++;
    }
    buf_adds(out, count ? " }\n" : "");
}

void fleet_buckets_write(const struct nodes *nodes, struct buf *out)
{
    for (size_t place = 0; place < 2; place++)
        for (size_t i = 0; i < nodes->count; i++)
            if (!*nodes->all[i].moved)
                add_rules(nodes, &nodes->all[i], place, out);
}
