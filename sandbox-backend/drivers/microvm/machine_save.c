// SPDX-License-Identifier: Apache-2.0
// The saving of a machine: its state is written into a directory (machine_image.h) while it goes
// on.
//
// All parts are of the one instant at which the guest was stopped:
// - QEMU saves the devices.
// - The guest's own pages are copied into the daemon's memory, and written once the guest runs.
// - A backup job of QEMU copies the clusters of the disk, each before the guest may change it.
// So the standstill takes as long as the copy of the pages, however large the disk is, and no chain
// of disks arises. Nothing is synced inside the guest: memory and disk are of the same moment.
//
// Stages. Each begins when all parts of the one before are over. After a failure, the later stages
// undo the saving:
//
//   PREPARE     worker: finds the memory, makes the buffer and the files
//   TARGET      QMP: QEMU gets the files; the disk of the image becomes a node
//   STANDSTILL  QMP: stop, devices, the backup begins; worker: pages
//   GO_ON       QMP: cont (unless it was paused or is to stay); worker: writes; the backup ends
//   DETACH      QMP: the node is removed
//   SEAL        worker: sums, syncs, image.json; or removes all files
//   AS_IT_WAS   QMP: cont, for a machine that was to stay stopped and could not be saved
//
// A saving of the disk alone (SAVE_DISK) leaves out the devices and the pages.
//
// A file `saving` in the sandbox's directory tells a later daemon that a saving was cut off, and
// whether the guest ran before. machine_adopt.c then lets the guest go on (machine__save_mend).
//
// Tested under TCG. With KVM the devices also hold the guest's clock (kvmclock), which QEMU stops
// and sets as for a migration.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/fault.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/microvm/image/machine_image.h"
#include "sandbox-backend/drivers/microvm/image/save_files.h"
#include "sandbox-backend/drivers/microvm/machine.h"
#include "sandbox-backend/drivers/microvm/qemu/qemu.h"
#include "sandbox-backend/log/log.h"

#define SAVE_MS    30000  // for each command
#define JOB_MS     600000 // for the copy of the disk
#define CANCEL_MS  30000  // for the end of a canceled job
#define FULL_BYTES 262144 // free bytes below which a disk counts as full

#define NODE   "save" // the id of the node of the image's disk, and of the job
#define MARKER "saving"

enum save_stage { NOT_BEGUN, PREPARE, TARGET, STANDSTILL, GO_ON, DETACH, SEAL, AS_IT_WAS, OVER };

enum job { JOB_NONE, JOB_RUNNING, JOB_OVER };

struct machine_save {
    struct microvm *m;
    enum save_stage stage;
    int waiting; // parts of the stage that are not over yet
    bool was_running;
    enum machine_save_use use;
    bool has_node;
    enum job job;
    bool job_waited; // one of `waiting` is the job
    bool canceled;
    bool is_full;             // the disk was full when the saving failed
    struct deadline deadline; // the job's
    uint64_t stopped_ns;
    int64_t standstill_us;
    char *dir;    // owned, as the two that follow
    char *disk;   // the machine's
    char *marker; // path
    struct save_files files;
    struct err error; // the first error
};

static void begin_stage(struct machine_save *s, enum save_stage stage);
static void set_job(struct machine_save *s, enum job to);
static void prepare(struct machine_save *s);
static void add_target(struct machine_save *s);
static void stand_still(struct machine_save *s);
static void go_on(struct machine_save *s);
static void detach(struct machine_save *s);
static void seal(struct machine_save *s);
static void as_it_was(struct machine_save *s);
static void finish(struct machine_save *s);

// ---- begin and end of a saving

static bool failed(const struct machine_save *s)
{
    return err_is(&s->error);
}

// Return the saving of a machine that is not ending, else NULL: then no stage need follow.
static struct machine_save *save_of(struct microvm *m)
{
    bool alive = m->core.state == MACHINE_RUNNING || m->core.state == MACHINE_PAUSING ||
                 m->core.state == MACHINE_PAUSED || m->core.state == MACHINE_RESUMING;
    return alive ? m->save : NULL;
}

static void part_over(struct machine_save *s, const struct err *e)
{
    if (e)
        err_set(&s->error, e->code, "%s", e->msg);
    if (--s->waiting == 0)
        begin_stage(s, s->stage + 1);
}

static void begin_stage(struct machine_save *s, enum save_stage stage)
{
    static const struct {
        const char *name;
        void (*begin)(struct machine_save *s);
    } STAGES[] = {
        [PREPARE] = {"save: prepare", prepare},       [TARGET] = {"save: target", add_target},
        [STANDSTILL] = {"save: stop", stand_still},   [GO_ON] = {"save: go on", go_on},
        [DETACH] = {"save: detach", detach},          [SEAL] = {"save: seal", seal},
        [AS_IT_WAS] = {"save: as it was", as_it_was}, [OVER] = {"save: over", finish},
    };
    if (stage != s->stage + 1 || !STAGES[stage].begin) // no stage is left out, and none comes twice
        abort();
    s->stage = stage;
    core_step(&s->m->core, STAGES[stage].name);
    s->waiting = 1; // one more, until all parts have begun
    STAGES[stage].begin(s);
    if (stage != OVER)
        part_over(s, NULL);
}

static void on_reply(struct qmp *q, const json_t *value, const struct err *e, void *ctx)
{
    (void)q;
    (void)value;
    struct machine_save *s = save_of(ctx);
    if (s)
        part_over(s, e);
}

static void ask(struct machine_save *s, const char *command, json_t *arguments, qmp_reply_cb cb)
{
    s->waiting++;
    qmp_execute(s->m->qmp, command, arguments, SAVE_MS, cb, s->m);
}

static void on_worked(struct machine_core *core, const struct err *e)
{
    struct machine_save *s = save_of(microvm_of_core(core));
    if (s)
        part_over(s, e);
}

static void work(struct machine_save *s, core_work_run *run)
{
    s->waiting++;
    core_work(&s->m->core, run, on_worked, s);
}

static void run_prepare(void *ctx, struct err *e)
{
    save_files_prepare(&((struct machine_save *)ctx)->files, e);
}

static void run_read(void *ctx, struct err *e)
{
    save_files_read(&((struct machine_save *)ctx)->files, e);
}

static void run_write(void *ctx, struct err *e)
{
    save_files_write(&((struct machine_save *)ctx)->files, e);
}

static void run_seal(void *ctx, struct err *e)
{
    struct machine_save *s = ctx;
    if (!failed(s) && save_files_seal(&s->files, e) == 0)
        return;
    s->is_full = dir_free_bytes(s->dir) < FULL_BYTES;
    machine_image_empty(s->dir);
}

static void on_late(struct deadline *d);

static void save_it(struct machine_core *core, struct machine_request *r)
{
    struct microvm *m = microvm_of_core(core);
    struct err full = ERR_INIT;
    if (machine__stands(&m->core.machine, &full) < 0) {
        core_answer(&m->core, &full);
        return;
    }
    struct machine_save *s = xcalloc(1, sizeof *s);
    *s = (struct machine_save){.m = m,
                               .was_running = m->core.state == MACHINE_RUNNING,
                               .use = r->use,
                               .dir = xstrdup(r->text),
                               .disk = str_printf("%s/" MACHINE_OVERLAY, m->core.dir),
                               .marker = str_printf("%s/" MARKER, m->core.dir)};
    s->files = (struct save_files){.dir = s->dir,
                                   .template_dir = m->core.template,
                                   .size = m->core.size,
                                   .overlay = s->disk,
                                   .memory = {.mem = -1, .pagemap = -1},
                                   .disk = -1,
                                   .devices = -1,
                                   .qemu = subproc_pid(m->core.guest),
                                   .guest_waits = s->was_running,
                                   .disk_only = save_is_disk(s->use),
                                   .sync = s->use != SAVE_IN_PASSING};
    deadline_init(&s->deadline, m->core.loop, on_late);
    m->save = s;
    begin_stage(s, PREPARE);
}

void machine__save(struct machine *machine, const char *dir, enum machine_save_use use,
                   machine_runs_cb on_runs, machine_saved_cb cb, void *ctx)
{
    core_ask_save(machine, save_it, dir, use, on_runs, cb, ctx);
}

// ---- the stages

static void prepare(struct machine_save *s)
{
    const char *state = s->was_running ? "running" : "paused";
    if (file_replace(s->marker, state, strlen(state), 0600, &s->error) == 0)
        work(s, run_prepare);
}

static void on_target(struct qmp *q, const json_t *value, const struct err *e, void *ctx)
{
    struct machine_save *s = save_of(ctx);
    if (s && !e)
        s->has_node = true;
    on_reply(q, value, e, ctx);
}

// QEMU may have the files of an earlier saving still: it closes none while its guest is stopped. It
// opens the newest file of a set.
static void forget_files(struct machine_save *s)
{
    static const int SETS[] = {QEMU_SET_SAVE_DISK, QEMU_SET_SAVE_DEVICES};
    for (size_t i = 0; i < ARRAY_LEN(SETS); i++)
        qmp_execute(s->m->qmp, "remove-fd", json_pack("{s:i}", "fdset-id", SETS[i]), SAVE_MS, NULL,
                    NULL);
}

static void give_files(struct machine_save *s)
{
    const struct save_files *f = &s->files;
    forget_files(s);
    s->waiting++;
    qmp_add_fd(s->m->qmp, QEMU_SET_SAVE_DISK, f->disk, SAVE_MS, on_reply, s->m);
    s->waiting += !f->disk_only;
    if (!f->disk_only)
        qmp_add_fd(s->m->qmp, QEMU_SET_SAVE_DEVICES, f->devices, SAVE_MS, on_reply, s->m);
    save_files_given(&s->files);
}

static void add_target(struct machine_save *s)
{
    if (failed(s))
        return;
    if (s->m->core.adopted) // an earlier daemon may have left files
        qmp_execute(s->m->qmp, "blockdev-del", json_pack("{s:s}", "node-name", NODE), SAVE_MS, NULL,
                    NULL);
    give_files(s);
    char *file auto_free = str_printf(QEMU_FDSET "%d", QEMU_SET_SAVE_DISK);
    // The node has the same backing file as the machine's own disk, so that zeros over it are
    // written as such.
    ask(s, "blockdev-add",
        json_pack("{s:s, s:s, s:s, s:{s:b}, s:s, s:{s:s, s:s, s:{s:b}, s:s}}", "driver", "qcow2",
                  "node-name", NODE, "backing", QEMU_DISK_BASE_NODE, "cache", "no-flush", 1,
                  "discard", "unmap", "file", "driver", "file", "filename", file, "cache",
                  "no-flush", 1, "discard", "unmap"),
        on_target);
    ask(s, "block_resize",
        json_pack("{s:s, s:I}", "node-name", NODE, "size", (json_int_t)s->files.disk_bytes),
        on_reply);
}

static void on_stopped(struct qmp *q, const json_t *value, const struct err *e, void *ctx)
{
    (void)q;
    struct microvm *m = ctx;
    struct err other = ERR_INIT;
    const char *status = machine__status_in(m, MACHINE_PAUSING, value, e);
    if (!status)
        return; // the machine is ending
    bool is_paused = str_eq(status, "paused");
    core_set_state(&m->core, is_paused ? MACHINE_PAUSED : MACHINE_RUNNING);
    FAULT("save.4");
    if (is_paused)
        work(m->save, run_read);
    else
        err_set(&other, ERR_INTERNAL, "QEMU should have stopped, but is in the state \"%s\"",
                status);
    part_over(m->save, is_paused ? NULL : &other);
}

static void on_backup(struct qmp *q, const json_t *value, const struct err *e, void *ctx)
{
    struct machine_save *s = save_of(ctx);
    if (s && !e && s->job == JOB_NONE) // else its end was told before its begin
        set_job(s, JOB_RUNNING);
    on_reply(q, value, e, ctx);
}

// QEMU gets all commands at once. A worker copies the pages while QEMU saves the devices: neither
// changes memory.
static void stand_still(struct machine_save *s)
{
    if (failed(s))
        return;
    FAULT("save.3");
    s->stopped_ns = uv_hrtime();
    if (s->was_running) {
        core_set_state(&s->m->core, MACHINE_PAUSING);
        qmp_execute(s->m->qmp, "stop", NULL, SAVE_MS, NULL, NULL);
        ask(s, "query-status", NULL, on_stopped);
    } else {
        work(s, run_read);
    }
    char *file auto_free = str_printf(QEMU_FDSET "%d", QEMU_SET_SAVE_DEVICES);
    // With "live": false the disk stays with this QEMU.
    if (!s->files.disk_only)
        ask(s, "xen-save-devices-state", json_pack("{s:s, s:b}", "filename", file, "live", 0),
            on_reply);
    ask(s, "blockdev-backup",
        json_pack("{s:s, s:s, s:s, s:s}", "job-id", NODE, "device", QEMU_DISK_NODE, "target", NODE,
                  "sync", "top"),
        on_backup);
}

static void on_resumed(struct qmp *q, const json_t *value, const struct err *e, void *ctx)
{
    (void)q;
    struct microvm *m = ctx;
    struct err other = ERR_INIT;
    const char *status = machine__status_in(m, MACHINE_RESUMING, value, e);
    if (!status)
        return;
    bool runs = str_eq(status, "running");
    core_set_state(&m->core, runs ? MACHINE_RUNNING : MACHINE_PAUSED);
    m->save->standstill_us = (int64_t)(uv_hrtime() - m->save->stopped_ns) / 1000;
    if (!runs)
        err_set(&other, ERR_INTERNAL, "QEMU should run again, but is in the state \"%s\"", status);
    else if (m->core.request->on_runs)
        m->core.request->on_runs(&m->core.machine, m->core.request->ctx);
    part_over(m->save, runs ? NULL : &other);
}

static void let_go_on(struct machine_save *s)
{
    core_set_state(&s->m->core, MACHINE_RESUMING);
    qmp_execute(s->m->qmp, "cont", NULL, SAVE_MS, NULL, NULL);
    ask(s, "query-status", NULL, on_resumed);
}

static void cancel_job(struct machine_save *s)
{
    s->canceled = true;
    deadline_arm(&s->deadline, CANCEL_MS);
    qmp_execute(s->m->qmp, "block-job-cancel", json_pack("{s:s, s:b}", "device", NODE, "force", 1),
                SAVE_MS, NULL, NULL);
}

static void go_on(struct machine_save *s)
{
    FAULT("save.5");
    if (s->was_running && s->m->core.state == MACHINE_PAUSED &&
        (!save_is_in_place(s->use) || failed(s)))
        let_go_on(s);
    if (s->job == JOB_RUNNING) {
        s->waiting++;
        s->job_waited = true;
        deadline_arm(&s->deadline, JOB_MS);
        if (failed(s))
            cancel_job(s);
    }
    if (!failed(s))
        work(s, run_write);
}

static void set_job(struct machine_save *s, enum job to)
{
    if (to <= s->job) // a job may end before QEMU has answered that it begins
        abort();
    s->job = to;
}

static void job_over(struct machine_save *s, const struct err *e)
{
    set_job(s, JOB_OVER);
    deadline_disarm(&s->deadline);
    if (!s->job_waited) {
        if (e)
            err_set(&s->error, e->code, "%s", e->msg);
        return;
    }
    s->job_waited = false;
    part_over(s, e);
}

// Once, although QEMU may tell both that the job has ended and that there is none to cancel.
static void mended(struct microvm *m)
{
    if (!m->mending)
        return;
    char *marker auto_free = str_printf("%s/" MARKER, m->core.dir);
    m->mending = false;
    unlink(marker);
    machine__adopt_go_on(m);
}

void machine__save_event(struct microvm *m, const char *name, const json_t *data)
{
    struct machine_save *s = save_of(m);
    struct err e = ERR_INIT;
    const char *error = json_string_value(json_object_get(data, "error"));
    if (!str_eq(json_string_value(json_object_get(data, "device")), NODE))
        return;
    if (m->mending && (str_eq(name, "BLOCK_JOB_CANCELLED") || str_eq(name, "BLOCK_JOB_COMPLETED")))
        mended(m);
    if (!s || s->job == JOB_OVER)
        return;
    if (str_eq(name, "BLOCK_JOB_CANCELLED"))
        err_set(&e, ERR_CANCELED, "the copy of the machine's disk was canceled");
    else if (!str_eq(name, "BLOCK_JOB_COMPLETED"))
        return;
    else if (error)
        err_set(&e, ERR_INTERNAL, "the machine's disk could not be copied: %s", error);
    job_over(s, err_is(&e) ? &e : NULL);
}

static void on_late(struct deadline *d)
{
    struct machine_save *s = container_of(d, struct machine_save, deadline);
    struct err e = ERR_INIT;
    err_set(&e, ERR_TIMEOUT, "the machine's disk was not copied in time");
    if (!save_of(s->m))
        return;
    if (s->canceled) {
        job_over(s, &e);
        return;
    }
    err_set(&s->error, e.code, "%s", e.msg);
    cancel_job(s);
}

static void detach(struct machine_save *s)
{
    FAULT("save.6");
    if (s->has_node)
        ask(s, "blockdev-del", json_pack("{s:s}", "node-name", NODE), on_reply);
    forget_files(s);
}

static void seal(struct machine_save *s)
{
    FAULT("save.7");
    work(s, run_seal);
}

static void as_it_was(struct machine_save *s)
{
    if (failed(s) && s->was_running && s->m->core.state == MACHINE_PAUSED)
        let_go_on(s);
}

// ---- the end

static void on_closed(struct deadline *d)
{
    struct machine_save *s = container_of(d, struct machine_save, deadline);
    save_files_fini(&s->files);
    free(s->dir);
    free(s->disk);
    free(s->marker);
    free(s);
}

// QEMU's own errors do not say that a disk is full.
static void name_limit(struct machine_save *s)
{
    struct err *e = &s->error;
    if (!failed(s) || (e->code != ERR_NO_SPACE && !s->is_full))
        return;
    err_wrap(e, "the host's disk has no room for the sandbox's state");
    e->code = ERR_LIMIT;
}

static void finish(struct machine_save *s)
{
    struct microvm *m = s->m;
    FAULT("save.8");
    unlink(s->marker);
    name_limit(s);
    m->core.request->saved =
        (struct machine_saved){.bytes = s->files.bytes, .standstill_us = s->standstill_us};
    log_debug("machine.saved", "id=%s pages=%llu bytes=%lld standstill_us=%lld", m->core.id,
              (unsigned long long)s->files.pages.total, (long long)s->files.bytes,
              (long long)s->standstill_us);
    m->save = NULL;
    core_answer(&m->core, failed(s) ? &s->error : NULL);
    deadline_close(&s->deadline, on_closed);
}

void machine__save_abandon(struct microvm *m)
{
    struct machine_save *s = m->save;
    if (!s || m->core.working)
        return;
    m->save = NULL;
    machine_image_empty(s->dir);
    deadline_close(&s->deadline, on_closed);
}

// ---- after the end of another daemon

bool machine__save_was_cut(const struct microvm *m, bool *was_running)
{
    char *marker auto_free = str_printf("%s/" MARKER, m->core.dir);
    struct buf text auto_buf = BUF_INIT;
    if (file_read(marker, 64, &text, NULL) < 0)
        return false;
    *was_running = str_eq(buf_str(&text), "running");
    return true;
}

// QEMU answers as soon as the job knows that it is to end. The event tells when it has.
static void on_cut_canceled(struct qmp *q, const json_t *value, const struct err *e, void *ctx)
{
    (void)q;
    (void)value;
    if (e) // there is no such job
        mended(ctx);
}

void machine__save_mend(struct microvm *m)
{
    m->mending = true;
    qmp_execute(m->qmp, "block-job-cancel", json_pack("{s:s, s:b}", "device", NODE, "force", 1),
                SAVE_MS, on_cut_canceled, m);
}
