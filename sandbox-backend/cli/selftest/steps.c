// SPDX-License-Identifier: Apache-2.0
// cubby selftest: the steps in the life of a sandbox.
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/selftest/selftest.h"
#include "sandbox-backend/host/proc.h"

#define CREATES       4 // one after the other
#define BURST         4 // at once
#define FORKS         3
#define COMMANDS      20
#define FILE_BYTES    (8 << 20)
#define POOL_WAIT_MS  30000
#define LOOK_EVERY_MS 50

int step_daemon(struct selftest *t, struct buf *said, struct err *e)
{
    if (home_connect(t, e) < 0)
        return -1;
    json_t *list = connection_list(&t->c, e);
    size_t count = json_array_size(list);
    json_decref(list);
    if (count)
        return err_set(e, ERR_INTERNAL, "a new state directory has %zu sandboxes", count);
    buf_adds(said, "a daemon of its own answers");
    return err_is(e) ? -1 : 0;
}

int step_create(struct selftest *t, struct buf *said, struct err *e)
{
    for (int i = 0; i < CREATES; i++)
        if (starts_create(t, 1, "sequentialMs", i == CREATES - 1 ? &t->id : NULL, e) < 0)
            return -1;
    buf_printf(said, "%s; %.0f ms to the first command's output (median of %d)",
               cli_text(t->sandbox, "isolation"), selftest_median(t, "sequentialMs"), CREATES);
    // A process and a file by which later steps see that the state was kept.
    return guest_run(t, t->id,
                     "echo kept >/tmp/selftest; "
                     "sleep 3600 >/dev/null 2>&1 & echo $! >/tmp/selftest.pid",
                     NULL, e);
}

// The file and the process of step_create are as they were.
static int is_kept(struct selftest *t, struct err *e)
{
    return guest_expect(t, t->id, "kill -0 $(cat /tmp/selftest.pid) && cat /tmp/selftest", "kept",
                        e);
}

int step_exec(struct selftest *t, struct buf *said, struct err *e)
{
    struct buf unused auto_buf = BUF_INIT;
    for (int i = 0; i < COMMANDS; i++) {
        double began = selftest_ms();
        if (guest_expect(t, t->id, "echo $((6 * 7))", "42", e) < 0)
            return -1;
        selftest_time(t, "commandMs", selftest_ms() - began);
    }
    if (guest_run(t, t->id, "exit 3", &unused, e) == 0)
        return err_set(e, ERR_INTERNAL, "a command that failed was reported as a success");
    if (!strstr(e->msg, "exit status 3"))
        return -1;
    *e = ERR_INIT;
    buf_printf(said, "%.1f ms a command (median of %d); exit codes arrive",
               selftest_median(t, "commandMs"), COMMANDS);
    return 0;
}

int step_files(struct selftest *t, struct buf *said, struct err *e)
{
    struct buf data auto_buf = BUF_INIT;
    struct buf back auto_buf = BUF_INIT;
    random_bytes(buf_room(&data, FILE_BYTES), FILE_BYTES);
    buf_took(&data, FILE_BYTES);
    double began = selftest_ms();
    if (guest_write(t, t->id, "/tmp/data", &data, e) < 0)
        return -1;
    double written = selftest_ms();
    if (guest_read(t, t->id, "/tmp/data", &back, e) < 0)
        return -1;
    double read = selftest_ms();
    if (back.len != data.len || memcmp(back.data, data.data, data.len) != 0)
        return err_set(e, ERR_INTERNAL, "a file of %d bytes came back different", FILE_BYTES);
    buf_printf(said, "%.0f MB/s in, %.0f MB/s out", FILE_BYTES / 1e3 / (written - began),
               FILE_BYTES / 1e3 / (read - written));
    return guest_run(t, t->id, "rm /tmp/data", NULL, e);
}

int step_python(struct selftest *t, struct buf *said, struct err *e)
{
    struct buf result auto_buf = BUF_INIT;
    double began = selftest_ms();
    if (guest_python(t, t->id, "value = 6 * 7", &result, e) < 0) {
        if (e->code != ERR_REFUSED && e->code != ERR_NOT_FOUND)
            return -1;
        *e = ERR_INIT;
        buf_adds(said, "the template has no Python kernel");
        return STEP_SKIPPED;
    }
    double first = selftest_ms();
    buf_clear(&result);
    if (guest_python(t, t->id, "value", &result, e) < 0)
        return -1;
    selftest_time(t, "pythonMs", selftest_ms() - first);
    t->python = true;
    if (!str_eq(buf_str(&result), "42"))
        return err_set(e, ERR_INTERNAL, "the Python kernel forgot a variable: it said \"%.60s\"",
                       buf_str(&result));
    buf_printf(said, "first run %.0f ms, second %.0f ms; variables stay", first - began,
               selftest_median(t, "pythonMs"));
    return 0;
}

// ---- pausing

int step_pause(struct selftest *t, struct buf *said, struct err *e)
{
    double began = selftest_ms();
    if (connection_pause(&t->c, t->id, PAUSE_FREEZE, e) < 0)
        return -1;
    double paused = selftest_ms();
    if (connection_resume(&t->c, t->id, SELFTEST_TTL_S, e) < 0)
        return -1;
    buf_printf(said, "pause %.0f ms, resume %.0f ms; processes stay", paused - began,
               selftest_ms() - paused);
    return is_kept(t, e);
}

int step_hibernate(struct selftest *t, struct buf *said, struct err *e)
{
    if (connection_pause(&t->c, t->id, PAUSE_HIBERNATE, e) < 0)
        return -1;
    buf_adds(said, "its memory is on the disk, and its machine has ended");
    return 0;
}

int step_wake(struct selftest *t, struct buf *said, struct err *e)
{
    if (connection_resume(&t->c, t->id, SELFTEST_TTL_S, e) < 0)
        return -1;
    buf_adds(said, "files and processes are there again");
    return is_kept(t, e);
}

// ---- snapshots

int step_snapshot(struct selftest *t, struct buf *said, struct err *e)
{
    json_t *snapshot = connection_snapshot(&t->c, t->id, NULL, e);
    if (!snapshot)
        return -1;
    t->snapshot = xstrdup(cli_text(snapshot, "snapshotID"));
    json_decref(snapshot);
    buf_adds(said, "the sandbox goes on");
    return is_kept(t, e);
}

int step_rollback(struct selftest *t, struct buf *said, struct err *e)
{
    if (!t->snapshot) {
        buf_adds(said, "there is no snapshot");
        return STEP_SKIPPED;
    }
    if (guest_run(t, t->id, "echo lost >/tmp/selftest; kill $(cat /tmp/selftest.pid)", NULL, e) < 0)
        return -1;
    double began = selftest_ms();
    if (connection_rollback(&t->c, t->id, t->snapshot, e) < 0)
        return -1;
    buf_printf(said, "%.0f ms; a changed file and an ended process are back",
               selftest_ms() - began);
    return is_kept(t, e);
}

int step_fork(struct selftest *t, struct buf *said, struct err *e)
{
    if (starts_fork(t, FORKS, said, e) < 0)
        return -1;
    buf_printf(said, ", each with files of its own; %.0f ms to the first output (median)",
               selftest_median(t, "forkMs"));
    return is_kept(t, e);
}

int step_burst(struct selftest *t, struct buf *said, struct err *e)
{
    if (starts_create(t, BURST, "burstMs", NULL, e) < 0)
        return -1;
    buf_printf(said, "%d at once; %.0f ms to the first output (median)", BURST,
               selftest_median(t, "burstMs"));
    return 0;
}

// ---- the daemon

int step_adopt(struct selftest *t, struct buf *said, struct err *e)
{
    if (home_kill_daemon(t, e) < 0)
        return -1;
    // From here on the daemon keeps sandboxes ready, as it does by default.
    unsetenv("CUBBY_POOL");
    double began = selftest_ms();
    if (home_connect(t, e) < 0 || is_kept(t, e) < 0)
        return -1;
    buf_printf(said,
               "killed by SIGKILL; the next daemon answers for the same sandbox after %.0f ms",
               selftest_ms() - began);
    return 0;
}

static bool is_pool_ready(struct selftest *t, struct err *e)
{
    json_t *stats = connection_stats(&t->c, NULL, e);
    bool ready = json_integer_value(json_object_get(json_object_get(stats, "host"), "pooled")) > 0;
    json_decref(stats);
    return ready;
}

int step_pool(struct selftest *t, struct buf *said, struct err *e)
{
    double until = selftest_ms() + POOL_WAIT_MS;
    bool ready = false;
    while (!err_is(e) && !(ready = is_pool_ready(t, e)) && selftest_ms() < until)
        poll(NULL, 0, LOOK_EVERY_MS);
    if (err_is(e))
        return -1;
    if (!ready) {
        buf_adds(said, "the daemon keeps no sandbox of this template and tier ready");
        return STEP_SKIPPED;
    }
    if (starts_create(t, 1, "pooledMs", NULL, e) < 0)
        return -1;
    buf_printf(said, "%.0f ms to the first output of a sandbox that was ready",
               selftest_median(t, "pooledMs"));
    return 0;
}

// ---- the end

struct left {
    const char *home; // borrowed
    int count;
};

static void look_at(const char *pid, int pidfd, void *ctx)
{
    struct left *left = ctx;
    (void)pidfd;
    left->count += proc_uses(pid, left->home, "", NULL);
}

int step_end(struct selftest *t, struct buf *said, struct err *e)
{
    if (home_end(t, e) < 0)
        return -1;
    struct left left = {.home = t->home};
    proc_each(geteuid(), look_at, &left);
    if (left.count)
        return err_set(e, ERR_INTERNAL, "%d processes of the test still run", left.count);
    buf_adds(said, "no process and no file is left");
    return 0;
}
