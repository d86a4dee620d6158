// SPDX-License-Identifier: Apache-2.0
// The room of a volume.
#include "sandbox-backend/volume/space.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/param.h>
#include <time.h>
#include <unistd.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"

#define STAT_BLOCK 512  // unit of st_blocks on every file system
#define FRESH_MS   5000 // a measurement is not repeated before, unless it is doubted
#define REST       4    // times as long as it took, no other is made: others want the lock, too

// In the shared file. A process that a guest has taken over may write anything here; that is why
// the limit is not taken from here by cubbyd.
struct space_counts {
    _Atomic int64_t used, coming;
    _Atomic int64_t measured_ms; // when `used` was last measured; 0: it is doubted
    int64_t limit;
    _Atomic int64_t rest_until_ms;
};

static int map(struct space *s, struct err *e)
{
    void *at = mmap(NULL, sizeof *s->counts, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
    if (at == MAP_FAILED)
        return err_sys(e, errno, "map the counts of a volume");
    s->counts = at;
    return 0;
}

// The file keeps its size: a process that cut it would end the others.
int space_make(struct space *s, int64_t limit, struct err *e)
{
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    *s = (struct space){.fd = memfd_create("volume", MFD_CLOEXEC | MFD_ALLOW_SEALING),
                        .limit = limit};
    if (s->fd < 0 || ftruncate(s->fd, sizeof *s->counts) < 0 ||
        fcntl(s->fd, F_ADD_SEALS, seals) < 0 || map(s, e) < 0) {
        err_sys(e, errno, "make the counts of a volume");
        space_fini(s);
        return -1;
    }
    s->counts->limit = limit;
    atomic_store(&s->counts->used, limit);
    return 0;
}

int space_open(struct space *s, int fd, struct err *e)
{
    struct stat st;
    *s = (struct space){.fd = fd};
    if (fstat(fd, &st) < 0 || st.st_size != sizeof *s->counts) {
        space_fini(s);
        return err_set(e, ERR_INVALID, "the counts of the volume have another size");
    }
    if (map(s, e) < 0) {
        space_fini(s);
        return -1;
    }
    s->limit = s->counts->limit;
    return 0;
}

void space_fini(struct space *s)
{
    if (s->counts)
        munmap(s->counts, sizeof *s->counts);
    mem_close_fd(&s->fd);
    *s = (struct space){.fd = -1};
}

// A lock belongs to an open file description, so each process needs one of its own.
int space_share(const struct space *s, struct err *e)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", s->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    return fd < 0 ? err_sys(e, errno, "open the counts of a volume") : fd;
}

// ---- the lock

static bool lock(const struct space *s, int how)
{
    int failed;
    do
        failed = flock(s->fd, how);
    while (failed < 0 && errno == EINTR);
    return failed == 0;
}

bool space_lock(const struct space *s)
{
    return lock(s, LOCK_EX);
}

bool space_try_lock(const struct space *s)
{
    return lock(s, LOCK_EX | LOCK_NB);
}

void space_unlock(const struct space *s)
{
    lock(s, LOCK_UN);
}

// ---- the counts

int64_t space_used(const struct space *s)
{
    return atomic_load(&s->counts->used) + atomic_load(&s->counts->coming);
}

// Add first and look then: of two that do this at once, at least one sees the other.
static bool reserve(const struct space *s, _Atomic int64_t *count, int64_t bytes)
{
    if (bytes > s->limit)
        return false;
    atomic_fetch_add(count, bytes);
    if (space_used(s) <= s->limit)
        return true;
    atomic_fetch_sub(count, bytes);
    return false;
}

bool space_take(const struct space *s, int64_t bytes)
{
    return reserve(s, &s->counts->used, bytes);
}

void space_correct(const struct space *s, int64_t bytes)
{
    atomic_fetch_add(&s->counts->used, bytes);
}

bool space_expect(const struct space *s, int64_t bytes)
{
    return reserve(s, &s->counts->coming, bytes);
}

void space_arrived(const struct space *s, int64_t bytes)
{
    atomic_fetch_sub(&s->counts->coming, bytes);
}

void space_doubt(const struct space *s)
{
    atomic_store(&s->counts->measured_ms, 0);
}

void space_set_used(const struct space *s, int64_t used, int64_t began_ms)
{
    int64_t now = MAX(clock_mono_ms(), 1);
    atomic_store(&s->counts->used, used);
    atomic_store(&s->counts->measured_ms, now);
    atomic_store(&s->counts->rest_until_ms, now + REST * (now - began_ms));
}

bool space_is_doubted(const struct space *s)
{
    return atomic_load(&s->counts->measured_ms) == 0;
}

bool space_may_err(const struct space *s)
{
    int64_t now = clock_mono_ms();
    return now >= atomic_load(&s->counts->rest_until_ms) &&
           (space_is_doubted(s) || now - atomic_load(&s->counts->measured_ms) >= FRESH_MS);
}

int64_t space_cost(const struct stat *st)
{
    bool has_blocks = S_ISREG(st->st_mode) || S_ISDIR(st->st_mode);
    return MAX(has_blocks ? (int64_t)st->st_blocks * STAT_BLOCK : 0, SPACE_NAME_BYTES);
}

int64_t space_dir_cost(int dir)
{
    struct stat st;
    return dir < 0 || fstat(dir, &st) < 0 ? 0 : space_cost(&st);
}
