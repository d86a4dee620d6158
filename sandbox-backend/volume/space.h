// SPDX-License-Identifier: Apache-2.0
// The room of a volume, which several processes use at once: cubbyd for the content API, and one
// cubby-mountd for each sandbox that has mounted it.
//
// They share a file in memory with two counts of bytes. `used` is what the volume's files take up,
// or more. `coming` is reserved for uploads, which cubbyd writes beside the files. A process adds
// to a count before it takes the room, so no two of them together exceed the limit. One that is
// killed leaves a count that is too high, never one that is too low.
//
// A process that finds no room measures the files again (removed.h). Each process that changes
// files holds the lock, so that no file changes during a measurement.
//
// Each name counts the blocks of its file or directory, and at least SPACE_NAME_BYTES, so that the
// limit also limits how many files there are. A file with two names costs twice. A directory
// that grows by a name is corrected afterwards, so the count may exceed the limit by what one
// change makes a directory grow; then there is no room for another.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "sandbox-backend/base/err.h"

#define SPACE_NAME_BYTES   4096
#define SPACE_MARGIN_BYTES 16384 // of a file's own tables, beside its contents

struct space {
    int fd;                      // owned; of the lock, for this process alone
    struct space_counts *counts; // owned; a mapping
    int64_t limit;               // as this process was told
};

// Make the shared file. Nothing is measured yet, so there is no room until space_measure.
int space_make(struct space *s, int64_t limit, struct err *e);
// Use a shared file. The space takes the descriptor, also after a failure.
int space_open(struct space *s, int fd, struct err *e);
void space_fini(struct space *s);
// Return a descriptor of the shared file for another process, with a lock of its own; or -1.
int space_share(const struct space *s, struct err *e);

// Wait for the lock, or try to get it. It excludes other processes, but no thread that uses the
// same `struct space`. False: another process has it, or there is no lock.
bool space_lock(const struct space *s);
bool space_try_lock(const struct space *s);
void space_unlock(const struct space *s);

// Reserve `bytes` for files. With 0, tell whether the volume is within its limit. False: no room.
bool space_take(const struct space *s, int64_t bytes);
// Correct `used` by what a change took in truth, less what was reserved for it.
void space_correct(const struct space *s, int64_t bytes);
// Reserve `bytes` for an upload, or end that with space_arrived.
bool space_expect(const struct space *s, int64_t bytes);
void space_arrived(const struct space *s, int64_t bytes);

// Note that `used` may be too high, or set it: `used` was measured under the lock, from `began_ms`
// by the monotonic clock until now.
void space_doubt(const struct space *s);
void space_set_used(const struct space *s, int64_t used, int64_t began_ms);
// Return whether to measure again: the count may be too high, and the last measurement is long
// enough ago. Measurements take at most a fifth of the time, because a guest can cause doubts.
bool space_may_err(const struct space *s);
// Return whether nothing was measured yet, or the count is known to be too high.
bool space_is_doubted(const struct space *s);
int64_t space_used(const struct space *s); // of both counts

// Return what each name of a file costs.
int64_t space_cost(const struct stat *st);
int64_t space_dir_cost(int dir); // of an open directory; 0 for none
