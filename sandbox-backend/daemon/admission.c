// SPDX-License-Identifier: Apache-2.0
// Whether one more sandbox fits on this machine.
#include "sandbox-backend/daemon/admission.h"

#include <unistd.h>

#define MEMORY_PERCENT 80
#define SANDBOXES      100
#define TIMEOUT_S      86400 // a day

// The promise is of what the guest sees, not of what it touches: an idle one has a few MB of its
// own, but nothing holds it to that, and a host out of memory kills what it likes.
void admission_defaults(struct store_limits *limits)
{
    int64_t memory = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    *limits = (struct store_limits){
        .sandboxes = SANDBOXES,
        .memory_bytes = memory / 100 * MEMORY_PERCENT,
        .timeout_s = TIMEOUT_S,
    };
}

int admission_check(const struct store *store, const struct create_spec *spec, struct err *e)
{
    const struct machine_facts *facts = &spec->template.facts;
    if (store->stopping)
        return err_set(e, ERR_UNAVAILABLE, "the daemon is stopping");
    if ((int64_t)store->count >= store->limits.sandboxes)
        return err_set(e, ERR_LIMIT,
                       "the limit of %lld sandboxes is reached, %zu exist; end one, or start the "
                       "daemon with a higher --max-sandboxes (CUBBY_MAX_SANDBOXES)",
                       (long long)store->limits.sandboxes, store->count);
    if (spec->max_sandboxes >= 0 &&
        (int64_t)store_of_owner(store, spec->owner) >= spec->max_sandboxes)
        return err_set(e, ERR_LIMIT,
                       "the limit of %lld sandboxes of this API key is reached; end one, or raise "
                       "max_sandboxes of \"%s\" in keys.json",
                       (long long)spec->max_sandboxes, spec->owner);
    int64_t used_mb = store_memory_bytes(store) >> 20;
    int64_t limit_mb = store->limits.memory_bytes >> 20;
    if (used_mb + facts->memory_mb > limit_mb)
        return err_set(e, ERR_LIMIT,
                       "the memory limit for sandboxes is %lld MB: %lld MB are in use by %zu, and "
                       "this one needs %lld MB; end one, or start the daemon with a higher "
                       "--max-memory (CUBBY_MAX_MEMORY)",
                       (long long)limit_mb, (long long)used_mb, store->count,
                       (long long)facts->memory_mb);
    return 0;
}
