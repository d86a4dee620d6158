// SPDX-License-Identifier: Apache-2.0
// What one owner, the name of an API key, may have at once: the limits of his key in keys.json.
// What was made on the unix socket has no owner and no such limit.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/keys/token_file.h"

struct sandbox;
struct store;

#define QUOTA_NONE (-1)
struct quota {
    int64_t max_sandboxes; // running and paused
    int64_t max_memory_mb; // of their guests; hibernated ones have none
    int64_t max_cpus;      // virtual ones, of those that run, or sleep and are woken by any request
    int64_t max_snapshots;
    int64_t max_disk_mb; // of the snapshots
    int64_t max_ports;   // that his sandboxes expose
};
#define QUOTA_UNLIMITED                                                        \
    (struct quota)                                                             \
    {                                                                          \
        QUOTA_NONE, QUOTA_NONE, QUOTA_NONE, QUOTA_NONE, QUOTA_NONE, QUOTA_NONE \
    }

struct quota quota_of_token(const struct token *t);

// What somebody asks for: one more sandbox, or an existing one that is to run again.
struct quota_want {
    int64_t sandboxes; // 1 for a new one, 0 for one that is there
    int64_t memory_mb; // 0 when its machine is there
    int64_t cpus;
};
// ERR_LIMIT names the quota, what of it is used, and what to do. Its retry_s is set when one of his
// sandboxes ends by itself soon. `except` (may be NULL), one of his, has nothing yet. Each child of
// a fork is one call of its own.
int quota_check(const struct store *store, const char *owner, const struct quota_want *want,
                const struct sandbox *except, struct err *e);
// The same for a snapshot more, of `bytes` (0 while that is not known), when he has `count` of them
// with `used` bytes.
int quota_check_snapshot(const struct store *store, const char *owner, size_t count, int64_t used,
                         int64_t bytes, struct err *e);
// The same for an exposed port more, when he has `count`.
int quota_check_ports(const struct store *store, const char *owner, size_t count, struct err *e);
