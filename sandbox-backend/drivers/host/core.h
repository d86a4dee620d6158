// SPDX-License-Identifier: Apache-2.0
// The core of a machine: the part that does not depend on the driver. A driver's own machine is a
// struct whose first member is a core. This folder has those functions of machine_ops (driver.h)
// that are the same for all drivers.
//
// A machine consists of one process in which the guest runs (QEMU, for example), a cubby-netd, and
// a cubby-egress if the sandbox has secrets or header rules. A machine without a network card has
// no cubby-netd. The beginning of core.c explains the states. Each section below names its file.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/drivers/driver.h"
#include "sandbox-backend/drivers/host/cgroup.h"
#include "sandbox-backend/drivers/host/subproc.h"
#include "sandbox-backend/net/deadline.h"

#define CORE_VMNET        "vm.net" // files in the sandbox's directory
#define CORE_CONTROL      "net.ctl"
#define CORE_NET_STATS    "net.stats"
#define CORE_EGRESS_STATS "egress.stats"

enum machine_state {
    MACHINE_STARTING, // being made, or being adopted
    MACHINE_RUNNING,
    MACHINE_PAUSING,
    MACHINE_PAUSED,
    MACHINE_RESUMING,
    MACHINE_SUSPECT, // it seems to have ended by itself; the driver waits a moment for the reason
    MACHINE_ENDING,  // it ended by itself; its processes were killed, and the core waits for them
    MACHINE_ENDED,   // it ended by itself; its processes are gone, and on_exit was called
    MACHINE_KILLING, // machine_kill was called
    MACHINE_CLOSING, // handles close, then it is freed
};

struct machine_core;
struct machine_request;
struct core_boot;
struct core_limits;
struct policy_call;

// A driver's additions to the core. Any function but `fini` may be NULL.
struct core_kind {
    const struct driver *driver;
    const char *process;   // name of the guest's process in messages: "QEMU"
    const char *member;    // its member in the machine's record: "qemu"
    const char *log;       // file in the sandbox's directory that keeps its last output: "qemu.log"
    bool memory_is_shared; // the guest's memory is a memory file, which the host counts as shared
    bool memory_of_group;  // where the control group counts memory, its count is the machine's
    int child_levels;      // number of generations of child processes in which the guest runs, too
    bool ends_others;      // SIGTERM lets the guest's process end the processes below it, and
                           // then itself; it gets SIGKILL only if it does not
    uint64_t start_ms;     // time limit of a start
    uint64_t look_ms;      // between two checks whether a booting guest listens; 0: 100 ms
    // Kill what the driver has started beside the processes of the core.
    void (*kill)(struct machine_core *c);
    // Return how many bytes of memory the guest's process shares with the guest alone. -1: unknown,
    // so the process's own count of shared pages is used. Only with memory_is_shared.
    int64_t (*memory_bytes)(const struct machine_core *c);
    // Return one line in which the guest's process gave a reason for its end, or NULL. New string.
    char *(*cause)(const struct machine_core *c);
    // Return one sentence about a start that took too long. Literal.
    const char *(*late)(const struct machine_core *c);
    bool first_ends; // the process that core_limits_start gets only starts the guest's process
    // Called when core_limits_start has made the groups and put its processes into them, or has
    // found that this host cannot have groups. A driver runs no guest before. With `first_ends`,
    // the driver then calls core_limits_confine for the guest's process.
    void (*limited)(struct machine_core *c);
    // Called when the machine has ended by itself and its processes are gone: cancel the driver's
    // work on it.
    void (*ended)(struct machine_core *c);
    // Begin to close the driver's own handles. Return how many calls of core_handle_closed follow.
    int (*close)(struct machine_core *c);
    // Free what the driver has added. The core then frees itself.
    void (*fini)(struct machine_core *c);
};

struct machine_core {
    struct machine machine; // first: the daemon's pointer to it
    const struct core_kind *kind;
    uv_loop_t *loop; // borrowed
    enum machine_state state;
    bool ready;        // on_ready was called with the machine
    bool adopted;      // an earlier daemon started it
    bool cause_known;  // `error` is the cause; otherwise a process that ends may give a better one
    bool background;   // from its start
    bool *spare_taken; // borrowed, until on_ready (machine_spec); NULL: take no spare
    struct err error;  // why it failed or ended
    char *id;          // owned, as all strings here
    char *dir;
    char *template;                // the template's directory
    struct machine_size size;      // requested; 0: the template's
    struct subproc *guest;         // owned; the process with the guest; NULL before its start
    int guest_log;                 // childlog, or -1
    struct deadline deadline;      // of the state
    int handles;                   // open handles; see core_close
    uint64_t begun_ns;             // uv_hrtime
    struct core_limits *limits;    // owned; NULL: the host enforces no limits
    unsigned walls, walls_missing; // of its jail: those built, those that the host cannot build
    bool working;                  // a core_work is in progress
    struct core_boot *boot;        // owned; while the guest boots

    TAILQ_HEAD(machine_requests, machine_request) requests; // owned; not answered yet
    struct machine_request *request;                        // the request that is being served

    char *vmnet;
    char *control;          // path of netd's control socket
    char *policy;           // JSON, for the start or the adoption; then NULL
    struct subproc *netd;   // NULL: the machine has no network card
    struct subproc *egress; // NULL: the sandbox has no secrets
    char *egress_config;    // for the start; then NULL
    const char *egress_use; // literal; --egress-use of cubby-netd, for a start
    char *egress_trust;     // file that egress reads beside the system's; or NULL
    int netd_log;
    int egress_log;
    // During core_set_egress (core_egress.c):
    bool egress_changes;             // netd has been asked
    struct subproc *egress_next;     // started, and not netd's yet
    int egress_next_log;             //
    struct subproc *egress_unused;   // killed; the answer waits for its end
    struct err egress_error;         // the answer
    struct policy_call *policy_call; // owned; NULL: no call

    machine_ready_cb on_ready;
    machine_exit_cb on_exit;
    void (*on_note)(const char *text, void *ctx); // machine_spec; NULL: not wanted
    void *ctx;
    void (*on_gone)(void *ctx);
    void *gone_ctx;
};

static inline struct machine_core *core_of(struct machine *machine)
{
    return (struct machine_core *)machine;
}

static inline const struct machine_core *core_of_const(const struct machine *machine)
{
    return (const struct machine_core *)machine;
}

// ---- core.c: the states

void core_init(struct machine_core *c, const struct core_kind *kind, uv_loop_t *loop,
               const struct machine_spec *spec, machine_ready_cb on_ready, machine_exit_cb on_exit,
               void *ctx);
void core_set_state(struct machine_core *c, enum machine_state to);
void core_step(const struct machine_core *c, const char *step); // logs the step with its time
// Return the factor by which a machine in the background may take longer.
uint64_t core_patience(const struct machine_core *c);
// Set the state (RUNNING or PAUSED) and call on_ready. The last statement of a caller.
void core_ready(struct machine_core *c, enum machine_state state);
bool core_is_alive(const struct machine_core *c); // neither ending nor ended
bool core_is_gone(const struct machine_core *c);  // no process or worker of it is left
// List the processes of the machine that exist, as they were started. Return their number.
#define CORE_PROCESSES_MAX 5
int core__processes(const struct machine_core *c, struct subproc *out[CORE_PROCESSES_MAX]);
// Close all handles, then free the machine and call on_ready with an error, or on_gone.
void core_close(struct machine_core *c);
void core_handle_closed(struct machine_core *c); // a handle that core_close waits for has closed
// Find the processes of a record again. If one has ended, the function still looks for the others,
// which the caller must end. ERR_GONE names the process that has ended.
int core_adopt(struct machine_core *c, const json_t *record, struct err *e);

// machine_ops
json_t *core_record(const struct machine *machine);
const char *core_vmnet(const struct machine *machine);
bool core_is_paused(const struct machine *machine);
void core_kill(struct machine *machine, void (*on_gone)(void *ctx), void *ctx);
void core_release(struct machine *machine, void (*on_gone)(void *ctx), void *ctx);

// ---- core_end.c: the end of a machine without machine_kill

// End a machine whose start failed, or that cannot be used any more. `e` is the reason.
void core_fail(struct machine_core *c, const struct err *e);
// Set the state SUSPECT, and end the machine after `wait_ms`. `reason` is reported unless a better
// one comes before.
void core_suspect(struct machine_core *c, uint64_t wait_ms, const char *reason);
void core_weak_sign(struct machine_core *c, const char *reason); // core_suspect with a short wait
void core_set_cause(struct machine_core *c, const char *reason); // replaces the reason
void core_end(struct machine_core *c);                           // ends a suspect machine now
void core_check_gone(struct machine_core *c);
void core_on_guest_exit(struct subproc *p, int status, void *ctx); // ctx: the core
void core_abandon(struct machine *machine);                        // machine_ops
void core__on_deadline(struct deadline *d);
void core__on_netd_exit(struct subproc *p, int status, void *ctx);
void core__kill_all(struct machine_core *c);

// ---- core_request.c

typedef void machine_serve(struct machine_core *c, struct machine_request *r);

struct machine_request {
    TAILQ_ENTRY(machine_request) link; // in core.requests until its callback is called
    struct machine_core *core;         // borrowed
    machine_serve *serve;
    machine_done_cb on_done;   // either this
    machine_saved_cb on_saved; // or this
    machine_runs_cb on_runs;   // of a save; may be NULL
    void *ctx;
    char *text;             // owned; the argument of `serve`: a policy or a directory
    char *egress;           // owned; of core_set_egress. It holds secrets
    const char *egress_use; // literal
    enum machine_save_use use;
    bool answered; // the result is known, and stored below
    struct err error;
    struct machine_saved saved;
    struct deadline turn; // serves the request, later answers it: always from the loop
};

// Return a request, which the caller fills in and gives to core_request. `how` is called when it is
// the request's turn and the machine is RUNNING or PAUSED. It answers with core_answer, now or
// later.
struct machine_request *core_request_new(struct machine_core *c, machine_serve *how, void *ctx);
void core_request(struct machine_request *r);
// Make a request that takes no argument.
void core_ask(struct machine *machine, machine_serve *how, machine_done_cb cb, void *ctx);
// Make the request of machine_save.
void core_ask_save(struct machine *machine, machine_serve *how, const char *dir,
                   enum machine_save_use use, machine_runs_cb on_runs, machine_saved_cb cb,
                   void *ctx);
// Answer the request that is being served. Its callback is called from the loop.
void core_answer(struct machine_core *c, const struct err *e);
void core_refuse(struct machine_core *c, const char *why); // the same, with ERR_CONFLICT
// Answer all requests now: with the result if it is known, else with this error. This function
// calls the requests' callbacks, so it must not run inside a function of machine_ops.
void core__answer_all(struct machine_core *c, enum err_code code, const char *why);

typedef void core_work_run(void *ctx, struct err *e);
typedef void core_work_then(struct machine_core *c, const struct err *e);

// Call `run` in a worker, then `then` in the loop, in any state but CLOSING. A machine has one such
// work at a time. The data that `run` uses must stay valid until `then`.
void core_work(struct machine_core *c, core_work_run *run, core_work_then *then, void *ctx);

// ---- core_boot.c

// The guest boots: the machine is ready when envd can be connected to.
void core_boot_start(struct machine_core *core);
void core__boot_abandon(struct machine_core *core);

// ---- core_network.c: netd

// Start cubby-netd, and cubby-egress if the sandbox has secrets. `frames` is netd's end of the
// guest's network card. vm.net and net.ctl accept connections from now on.
int core_network_start(struct machine_core *c, int frames, struct err *e);
void core__network_adopt(struct machine_core *c, const json_t *record);
int core_network(const struct machine *machine, enum machine_net which, struct net_stats *out,
                 struct err *e); // machine_ops

// ---- core_egress.c

// Start cubby-egress if there is an egress_config. *netd_end stays -1 without one.
int core__egress_start(struct machine_core *c, int *netd_end, struct err *e);
void core__egress_adopt(struct machine_core *c, const json_t *record);
void core__egress_forget(struct machine_core *c); // wipes the configuration of egress
const char *core__egress_use(const struct machine_egress *egress); // for cubby-netd; a literal
void core_set_egress(struct machine *machine, const struct net_policy *policy,
                     const struct machine_egress *egress, machine_done_cb cb,
                     void *ctx); // machine_ops

// ---- core_policy.c

// Set the policy of an adopted machine in its netd, which it must have. `done` comes from the loop,
// unless the machine closes before.
void core_policy_send(struct machine_core *c,
                      void (*done)(struct machine_core *c, const struct err *e));
void core_set_policy(struct machine *machine, const struct net_policy *policy, machine_done_cb cb,
                     void *ctx); // machine_ops
// A message to netd.
struct policy_message {
    const char *text;       // the policy; copied
    bool sets_egress;       // netd uses the egress at `egress_fd` from now on, or none if it is -1
    int egress_fd;          // closed in any case
    const char *egress_use; // literal
    void (*done)(struct machine_core *c, const struct err *e); // from the loop
};
void core__policy_send(struct machine_core *c, const struct policy_message *message);
void core__policy_abandon(struct machine_core *c);
char *core__policy_text(const struct net_policy *policy); // new string: JSON, one line

// ---- core_limits.c: control groups, background and jail

// Put the network processes and `first` into the machine's control groups, with these limits, and
// into the background if the machine's spec says so. `first` is the guest's process, or the process
// that starts it: a new process is in the groups of its parent. NULL: that one has ended, so the
// driver calls core_limits_confine. core_kind.limited is called later.
void core_limits_start(struct machine_core *c, const struct subproc *first,
                       const struct cgroup_limits *limits);
// Move the process into the groups that core_limits_start has made, and with it its descendants
// that began before the groups existed. The machine's record then has only the limits that hold for
// all of them. When memory runs out, the host kernel ends the present children of the process, and
// what they start later, before the process itself. For a guest that starts after this call, its
// own programs set that order. Blocks, so call it from a worker.
void core_limits_confine(struct machine_core *c, pid_t pid);
// Kill all processes that are left in the machine's groups: those of a guest whose process should
// have ended them, but has ended before.
void core_limits_kill(struct machine_core *c);
void core_set_background(struct machine *machine, bool background); // machine_ops
void core_confine(struct machine *machine, pid_t pid);              // machine_ops
json_t *core_jail(const struct machine *machine);                   // driver.jail
json_t *core_walls(unsigned walls, unsigned missing); // the same, of these. New reference
void core_sweep(const char *sandboxes_dir); // driver.sweep: removes the groups of ended machines
struct jailed_program;
// Start a process of the machine in a jail. The machine's record then describes the jail.
struct subproc *core_start_jailed(struct machine_core *c, const struct jailed_program *program,
                                  const struct spawn_opts *opts, subproc_exit_cb on_exit,
                                  struct err *e);
// Return the processor time of all present and past processes of the machine, or -1 if no group
// counts it.
int64_t core__limits_cpu_ns(const struct machine_core *c);
// Return the memory of all processes of the machine, or -1 if no group counts it.
int64_t core__limits_memory_bytes(const struct machine_core *c);
json_t *core__limits_record(const struct machine_core *c); // new reference
void core__limits_adopt(struct machine_core *c, const json_t *record);
void core__jail_adopt(struct machine_core *c, const json_t *record);
// Close before the machine is freed. True: a worker still runs, and core_handle_closed follows.
bool core__limits_close(struct machine_core *c);
void core__limits_fini(struct machine_core *c); // removes the groups if their processes are gone

// ---- core_usage.c

// Measure what the processes use. A driver with disks adds their size; another driver uses this
// function in machine_ops as it is.
int core_usage(const struct machine *machine, struct machine_usage *out, struct err *e);
