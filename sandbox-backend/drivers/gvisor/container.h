// SPDX-License-Identifier: Apache-2.0
// A container of gVisor: a machine's core (host/core.h), and the state that runsc needs. Only the
// files of this folder include this header. container.c opens with the theory of operation.
#pragma once
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/drivers/driver.h"
#include "sandbox-backend/drivers/gvisor/bundle.h"
#include "sandbox-backend/drivers/gvisor/checkpoint.h"
#include "sandbox-backend/drivers/gvisor/container_dir.h"
#include "sandbox-backend/drivers/gvisor/gvisor.h"
#include "sandbox-backend/drivers/gvisor/stacks.h"
#include "sandbox-backend/drivers/gvisor/urpc.h"
#include "sandbox-backend/drivers/host/core.h"

struct blank;
struct container_save;

struct container {
    struct machine_core core;     // first: the daemon's pointer to it
    struct bundle_template facts; // of the template, but with the machine's own size
    struct container_dir dir;
    char *runsc, *from;          // owned; of the start: the program, and an image or NULL
    struct blank *blank;         // owned; a sentry to be taken over (blank.h), or NULL
    struct blank *untold;        // owned; taken over, and its `runsc create` has ended
    bool fits;                   // it can be taken over
    int template_fd;             // owned; of bundle_open; -1 once the sentry runs
    int image[CHECKPOINT_FILES]; // owned; files to restore the machine from; -1: none, or restored
    bool has_image;              // the machine is restored, not booted
    int panic_log;               // owned; what the sentry says when it ends; -1: unknown
    int card;                    // owned; the card's end for the sentry; -1 once the sentry has it
    struct subproc *creator;     // owned; `runsc create`, while it runs
    struct subproc *guard;  // owned; ends the sentry with the daemon; NULL: not wanted, or gone
    int guards;             // that have ended before the sentry
    struct urpc_call *call; // in progress, or NULL
    void (*then)(struct container *c, const struct err *e); // of container_pause.c, or NULL
    enum machine_state wanted;                              // of container_pause.c
    enum stacks_guest found;                                // of container_settle.c
    int stops;                                              // taken back there
    struct container_save *save;                            // owned; NULL: no saving
    bool is_created;                                        // the sentry runs
    bool is_limited;                                        // its control groups have been made
    bool is_left;         // all processes are gone, so the directory is removed too
    bool may_be_used;     // container_dir_kill failed, so the directory stays
    struct err no_sentry; // how `runsc create` failed
};

static inline struct container *container_of_core(struct machine_core *core)
{
    return (struct container *)core;
}

// ---- container.c
int container__start_guard(struct container *c, struct err *e);
struct container *container__new(uv_loop_t *loop, const struct machine_spec *spec,
                                 machine_ready_cb on_ready, machine_exit_cb on_exit, void *ctx);
// Call the sentry (urpc.h). One call at a time.
void container__call(struct container *c, const char *method, json_t *arg, const int *fds,
                     int fd_count, uint64_t limit_ms, urpc_cb cb);
// Do the same with any member of urpc_request set. For a machine in the background, the limits are
// longer.
void container__call_with(struct container *c, const struct urpc_request *request, urpc_cb cb);

json_t *container__record(const struct machine *machine);
void container__adopt(uv_loop_t *loop, const struct machine_spec *spec, const json_t *record,
                      machine_ready_cb on_ready, machine_exit_cb on_exit, void *ctx);

// ---- container_pause.c
// Stop a RUNNING machine, or let a PAUSED one go on. `then` is called once, unless the machine
// ends; container__go_on also takes NULL. Without an error, the machine is PAUSED or RUNNING. With
// an error its state is as before; or, if the sentry did not answer in time, it stays PAUSING or
// RESUMING until the answer comes, and then returns to the state before.
void container__stop(struct container *c, void (*then)(struct container *c, const struct err *e));
void container__go_on(struct container *c, void (*then)(struct container *c, const struct err *e));
bool container__is_paused(const struct machine *machine);
void container__pause(struct machine *machine, machine_done_cb cb, void *ctx);
void container__resume(struct machine *machine, machine_done_cb cb, void *ctx);

// ---- container_mark.c: the mark of a guest that stands still

enum container_mark {
    MARK_NONE,     // it runs
    MARK_CHANGING, // the sentry was told to stop it or to let it go on, or is about to be told
    MARK_PAUSED,   // it stands still
};

int container__mark(const struct container *c, enum container_mark mark, struct err *e);
enum container_mark container__marked(const struct container *c);

// ---- container_settle.c
// Find out whether the guest of an adopted machine stands still, or let it go on if that is not
// known. Call core_ready or core_fail.
void container__settle(struct container *c);

// ---- container_create.c
struct machine *container__create(uv_loop_t *loop, const struct machine_spec *spec,
                                  machine_ready_cb on_ready, machine_exit_cb on_exit, void *ctx);

void container__on_limited(struct machine_core *core);

// ---- container_save.c
void container__save(struct machine *machine, const char *dir, enum machine_save_use use,
                     machine_runs_cb on_runs, machine_saved_cb cb, void *ctx);
// Give up the saving in progress of a machine that has ended or is released, and remove its files.
void container__save_abandon(struct container *c);

// ---- doctor.c
void gvisor__doctor(const char *home, finding_cb add, void *ctx);

// ---- gvisor.c
const char *gvisor__runsc(void); // $CUBBY_RUNSC, or NULL. Borrowed
