// SPDX-License-Identifier: Apache-2.0
// The struct of a process driver's machine, for process_driver.c and process_request.c alone.
#pragma once
#include <stdbool.h>
#include <sys/queue.h>
#include <uv.h>

#include "sandbox-backend/drivers/driver.h"
#include "sandbox-backend/drivers/host/subproc.h"
#include "sandbox-backend/net/deadline.h"

#define PROCESS_LATE_MS 1000 // the delay that a template's "late" means
#define PROCESS_LOOK_MS 5    // between two looks whether a template still says "held"

struct process_request;

struct process_machine {
    struct machine machine; // first
    uv_loop_t *loop;
    struct subproc *process; // owned; NULL before it was started
    struct deadline ready;   // reports on_ready: from the loop, never synchronously
    char *dir;               // owned
    char *template;          // owned; the template's directory
    char *vmnet;             // owned
    struct err err;
    machine_ready_cb on_ready;
    machine_exit_cb on_exit;
    void (*on_note)(const char *text, void *ctx);
    void *ctx;
    int open; // handles that are open
    bool paused;

    // How the machine starts (process_driver.c).
    char *image, *guest, *init_mode, *how; // owned; image may be NULL
    uv_work_t copying_in;

    // Requests (process_request.c).
    STAILQ_HEAD(process_requests, process_request) requests;
    struct deadline turn; // serves the requests
    bool copying;         // a thread writes an image
    char *exit_reason;    // owned; it ended by itself: on_exit follows the last answer
    bool ending;          // it was killed or released: on_gone follows the last answer
    bool released;
    void (*on_gone)(void *ctx);
    void *gone_ctx;
};

// process_driver.c
void process__keep_policy(const struct process_machine *m, const struct net_policy *policy,
                          struct err *e);
void process__keep_egress(const struct process_machine *m, const char *egress, struct err *e);
json_t *process__template_json(const char *dir, struct err *e);
// Tell whether the template says "held" for a step: "create", "restore", "save" or "resume". From
// any thread.
bool process__is_held(const char *dir, const char *step);
void process__close(struct process_machine *m); // then calls on_gone

static inline struct process_machine *process_of(struct machine *machine)
{
    return (struct process_machine *)machine;
}

static inline const struct process_machine *process_of_const(const struct machine *machine)
{
    return (const struct process_machine *)machine;
}

// process_request.c
void process__turn(struct deadline *d); // the callback of `turn`
void process__kill(struct machine *machine, void (*on_gone)(void *ctx), void *ctx);
void process__abandon(struct machine *machine);
void process__release(struct machine *machine, void (*on_gone)(void *ctx), void *ctx);
void process__pause(struct machine *machine, machine_done_cb cb, void *ctx);
void process__resume(struct machine *machine, machine_done_cb cb, void *ctx);
// The machine's disk is full, as a test says by the file "disk-full" in its directory.
int process__stands(const struct machine *machine, struct err *e);
bool process__is_paused(const struct machine *machine);
void process__set_policy(struct machine *machine, const struct net_policy *policy,
                         machine_done_cb cb, void *ctx);
void process__set_egress(struct machine *machine, const struct net_policy *policy,
                         const struct machine_egress *egress, machine_done_cb cb, void *ctx);
void process__save(struct machine *machine, const char *dir, enum machine_save_use use,
                   machine_runs_cb on_runs, machine_saved_cb cb, void *ctx);

// process_machine.c
void process__note(const char *dir, const char *what); // adds a line to the machine's calls.log
