// SPDX-License-Identifier: Apache-2.0
// What the files of one machine share: machine.c (the whole, and its end by its owner),
// machine_create.c (restore), machine_adopt.c, machine_exit.c (the end by itself),
// machine_request.c (what its owner asks), machine_pause.c, machine_policy.c, machine_cgroup.c,
// machine_save.c, machine_egress.c; machine_restore.c (what an image needs), machine_work.c (what
// would block).
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/drivers/driver.h"
#include "sandbox-backend/drivers/microvm/qmp.h"
#include "sandbox-backend/drivers/microvm/subproc.h"
#include "sandbox-backend/net/deadline.h"

#define MACHINE_OVERLAY      "disk.qcow2" // files in the sandbox's directory
#define MACHINE_QMP          "qmp.sock"
#define MACHINE_VMNET        "vm.net"
#define MACHINE_CONTROL      "net.ctl"
#define MACHINE_NET_STATS    "net.stats"
#define MACHINE_EGRESS_STATS "egress.stats"

#define MACHINE_QMP_MS 10000 // for each command of a restore or an adoption (machine__qmp_ms)

enum machine_state {
    MACHINE_STARTING, // restoring, or being adopted
    MACHINE_RUNNING,
    MACHINE_PAUSING,
    MACHINE_PAUSED,
    MACHINE_RESUMING,
    MACHINE_SUSPECT, // it is ending by itself; for a moment, to learn why
    MACHINE_ENDING,  // by itself: both processes were killed and are waited for
    MACHINE_ENDED,   // by itself: both are gone, the owner was told
    MACHINE_KILLING, // by its owner
    MACHINE_CLOSING, // handles close, then it is freed
};

struct machine_request;
struct policy_call;
struct machine_cgroup;
struct machine_boot;
struct machine_save;
struct machine_restore;

struct machine {
    uv_loop_t *loop; // borrowed
    enum machine_state state;
    bool ready;          // on_ready was called with it
    bool adopted;        // by this daemon, from an earlier one
    bool adopted_paused; // and QEMU says that its guest is stopped
    bool loading;        // QEMU was told to load the device state, and may say that it has
    bool cause_known;    // `error` is why it ended; else the end of QEMU would explain it better
    bool disk_failed;    // the host could not read or write for the guest's disk
    struct err error;    // why it failed or ended
    char *id;            // owned, as all strings here
    char *dir;
    char *template;  // its directory
    bool background; // from its start
    char *vmnet;
    char *qmp_path;
    char *control;        // of netd
    char *policy;         // as text, for the start or the adoption; then NULL
    struct subproc *qemu; // owned; NULL before its start
    struct subproc *netd;
    struct subproc *egress; // NULL: its sandbox has no secrets
    char *egress_config;    // for its start; then NULL
    char *egress_trust;     // file that it reads, beside the system's; or NULL
    struct qmp *qmp;        // owned; NULL before its start
    int qemu_log;           // childlog, or -1
    int netd_log;
    int egress_log;
    struct deadline deadline;                               // of the state
    int handles;                                            // that must close before it is freed
    uint64_t begun_ns;                                      // uv_hrtime
    TAILQ_HEAD(machine_requests, machine_request) requests; // owned; not answered yet
    struct machine_request *request;                        // of them: the one that is served
    struct policy_call *policy_call;                        // owned; under way
    struct machine_save *save;                              // owned; under way
    struct machine_restore *restore;                        // owned; while it starts from an image
    bool working;                                           // machine__work is under way
    struct machine_size size;                               // asked for; 0: the template's
    int64_t grow_mb;               // its disk is to be made that large; 0: it is
    struct machine_boot *boot;     // owned; while its guest boots
    struct machine_cgroup *cgroup; // owned; NULL: the host holds it to nothing
    unsigned walls, walls_missing; // of its jail, and those that its host could not build
    machine_ready_cb on_ready;
    machine_exit_cb on_exit;
    void *ctx;
    void (*on_gone)(void *ctx);
    void *gone_ctx;
};

// ---- machine.c
struct machine *machine__new(uv_loop_t *loop, const struct machine_spec *spec,
                             machine_ready_cb on_ready, machine_exit_cb on_exit, void *ctx);
void machine__set_state(struct machine *m, enum machine_state to);
void machine__step(const struct machine *m, const char *step); // logs it with its time
int machine__open_qmp(struct machine *m, struct err *e);
uint64_t machine__qmp_ms(const struct machine *m); // for a command of a start or an adoption
// It is `state`, RUNNING or PAUSED: tells the owner. The last statement of a caller.
void machine__ready(struct machine *m, enum machine_state state);
bool machine__is_gone(const struct machine *m);
void machine__kill_both(struct machine *m);
// Closes all handles; then the owner is told (a start that failed, or on_gone), and it is freed.
void machine__close(struct machine *m);
void machine__handle_closed(struct machine *m); // one of those that machine__close waits for

// ---- machine_create.c, machine_adopt.c
struct machine *machine__create(uv_loop_t *loop, const struct machine_spec *spec,
                                machine_ready_cb on_ready, machine_exit_cb on_exit, void *ctx);
void machine__on_migration(struct machine *m, const char *status);
void machine__adopt(uv_loop_t *loop, const struct machine_spec *spec, const json_t *record,
                    machine_ready_cb on_ready, machine_exit_cb on_exit, void *ctx);

// ---- machine_request.c
typedef void machine_serve(struct machine *m, struct machine_request *r);

struct machine_request {
    TAILQ_ENTRY(machine_request) link; // in machine.requests until its callback is called
    struct machine *m;                 // borrowed
    machine_serve *serve;
    machine_done_cb on_done;                       // either this
    machine_saved_cb on_saved;                     // or this
    void (*on_runs)(struct machine *m, void *ctx); // of a save; may be NULL
    void *ctx;
    char *text; // owned; what `serve` needs: a policy, a directory
    enum machine_save_use use;
    bool answered; // what follows is known
    struct err error;
    struct machine_saved saved;
    struct deadline turn; // to be served, then to be answered: from the loop, never from within
};

// `how` is called in its turn, with a machine that is RUNNING or PAUSED, and answers by
// machine__answer, now or later. To be filled in, then given to machine__request, which takes it.
struct machine_request *machine__request_new(struct machine *m, machine_serve *how, void *ctx);
void machine__request(struct machine_request *r);
// The request that is served is over; its owner is told from the loop.
void machine__answer(struct machine *m, const struct err *e);
// Answers all, now: with what is known, else with this. Only where the owner may be called.
void machine__answer_all(struct machine *m, enum err_code code, const char *why);

// ---- machine_policy.c
char *machine__policy_text(const struct machine_spec *spec); // new string: JSON, one line
// Tells netd. `done` comes from the loop, unless it is abandoned. One at a time.
void machine__send_policy(struct machine *m, const char *text,
                          void (*done)(struct machine *m, const struct err *e));
void machine__policy_abandon(struct machine *m);

// ---- machine_boot.c
// QEMU boots the guest: the machine is ready when envd can be connected to.
void machine__boot(struct machine *m);
void machine__boot_abandon(struct machine *m);

// ---- machine_cgroup.c
// Both processes run: they are put into groups of their own, with the limits of this size.
void machine__cgroup_start(struct machine *m, const struct machine_size *size, bool emulated,
                           bool background);
void machine__cgroup_adopt(struct machine *m, const json_t *record);
// The machine closes. True: a worker is still at it, and on_closed will be called.
bool machine__cgroup_close(struct machine *m, void (*on_closed)(void *ctx), void *ctx);
void machine__cgroup_fini(struct machine *m); // removes the groups if their processes are gone
// False: it cannot be done by groups.
bool machine__cgroup_set_background(struct machine *m, bool background);
json_t *machine__cgroup_record(const struct machine *m); // new reference
void machine__sweep(const char *sandboxes_dir); // what is left of machines that nobody knows

// ---- machine_jail.c
struct jailed_program;
// Starts one of its processes in the jail; what the jail is like is then in the machine's record.
struct subproc *machine__start_jailed(struct machine *m, const struct jailed_program *program,
                                      const struct spawn_opts *opts, subproc_exit_cb on_exit,
                                      struct err *e);
json_t *machine__jail_json(const struct machine *m); // driver.jail
void machine__jail_adopt(struct machine *m, const json_t *record);

// ---- machine_egress.c
// Before netd. *netd_end is what netd gets of it, the caller's; -1 when there is none.
int machine__egress_start(struct machine *m, int *netd_end, struct err *e);
void machine__egress_adopt(struct machine *m, const json_t *record);
void machine__egress_forget(struct machine *m); // what it is told

// ---- machine_pause.c
// The status that QEMU answered, "running" or "paused", for a machine that waits in `expected` for
// it; NULL when there is nothing more to do: it is ending and that has its own way, or it has to
// end for this answer.
const char *machine__status_in(struct machine *m, enum machine_state expected, const json_t *value,
                               const struct err *e);

// ---- machine_work.c
typedef void machine_work_run(void *ctx, struct err *e);
typedef void machine_work_then(struct machine *m, const struct err *e);

// `run` in a worker, then `then` in the loop, in whatever state the machine is by then; not called
// when it is CLOSING. One at a time. What `run` uses stays until then.
void machine__work(struct machine *m, machine_work_run *run, machine_work_then *then, void *ctx);

// ---- machine_save.c
void machine__save_event(struct machine *m, const char *name, const json_t *data);
// The machine has ended or is let go: nothing of the image is left. Waits for the worker's end.
void machine__save_abandon(struct machine *m);
// Whether an earlier daemon ended while it saved this machine, and what the guest did before.
bool machine__save_was_cut(const struct machine *m, bool *was_running);
void machine__save_mend(struct machine *m); // what it left is undone

// ---- machine_restore.c
// Checks the image, makes the disk.
void machine__restore_open(struct machine *m, const char *image, machine_work_then *then);
char *machine__restore_vmstate(const struct machine *m); // new string: path
// Writes its pages into QEMU, which waits.
void machine__restore_fill(struct machine *m, machine_work_then *then);
void machine__restore_free(struct machine *m);

// ---- machine_exit.c
// The start cannot go on, or the machine is of no use: ends what there is of it, for this reason.
void machine__fail(struct machine *m, const struct err *e);
// The guest ended itself and QEMU waits, paused: looks on the console for the cause, then fails.
void machine__explain(struct machine *m, const char *reason);
// The same, for a status that QEMU answered which is neither "running" nor "paused".
void machine__explain_status(struct machine *m, const char *status);
void machine__check_gone(struct machine *m);
void machine__on_qemu_exit(struct subproc *p, int status, void *ctx);
void machine__on_netd_exit(struct subproc *p, int status, void *ctx);
void machine__on_event(struct qmp *q, const char *name, const json_t *data, void *ctx);
void machine__on_lost(struct qmp *q, const struct err *e, void *ctx);
void machine__on_deadline(struct deadline *d);
