// SPDX-License-Identifier: Apache-2.0
// Quotas: the limits on what one owner may have at once. keys.json sets them for the API key of
// that name. A sandbox that was made on the unix socket has no owner, and no quota.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/keys/token_file.h"

#define QUOTA_NONE (-1)
enum quota_kind {
    QUOTA_SANDBOXES, // running and paused
    QUOTA_MEMORY_MB, // of guests that have a machine
    QUOTA_CPUS,      // virtual processors of the sandboxes that run or are asleep
    QUOTA_SNAPSHOTS,
    QUOTA_DISK_MB, // of the snapshots and the built templates
    QUOTA_PORTS,   // exposed ports
    QUOTA_BUILDS,  // unfinished builds of templates; none without --allow-builds
    QUOTA_KINDS
};
struct quota {
    int64_t max[QUOTA_KINDS];
};
#define QUOTA_UNLIMITED                                                                        \
    (struct quota)                                                                             \
    {                                                                                          \
        {                                                                                      \
            QUOTA_NONE, QUOTA_NONE, QUOTA_NONE, QUOTA_NONE, QUOTA_NONE, QUOTA_NONE, QUOTA_NONE \
        }                                                                                      \
    }

struct quota quota_of_token(const struct token *t);

// An owner's request: one more sandbox, or an existing one that is to run again.
struct quota_want {
    int64_t sandboxes; // 1 for a new one, 0 for one that exists
    int64_t memory_mb; // 0 if its machine exists
    int64_t cpus;
};
// The sandboxes and resources that an owner has now.
struct quota_used {
    int64_t sandboxes, memory_mb, cpus;
    int64_t next_end_ms; // monotonic; when the next of these sandboxes ends; INT64_MAX: never
};
// Each check below fails with ERR_LIMIT. The message names the limit, how much of it is in use, and
// what to do.

// Check one more sandbox, or an existing one that is to run again. Set e->retry_s if a sandbox of
// this owner will soon end by itself.
int quota_check(const struct quota *q, const char *owner, const struct quota_used *used,
                const struct quota_want *want, struct err *e);
// Check one more snapshot, of `bytes` (0: not known yet). The owner has `count`, with `used` bytes.
int quota_check_snapshot(const struct quota *q, const char *owner, size_t count, int64_t used,
                         int64_t bytes, struct err *e);
// Check one more build. The owner has `unfinished` ones, and `used` bytes of snapshots and built
// templates.
int quota_check_build(const struct quota *q, const char *owner, int64_t unfinished, int64_t used,
                      struct err *e);
// Check one more exposed port. The owner has `count`.
int quota_check_ports(const struct quota *q, const char *owner, size_t count, struct err *e);
