// SPDX-License-Identifier: Apache-2.0
// What a process driver's machine is made of, for process_driver.c and process_request.c alone.
#pragma once
#include <stdbool.h>
#include <sys/queue.h>
#include <uv.h>

#include "sandbox-backend/drivers/driver.h"
#include "sandbox-backend/drivers/microvm/subproc.h"
#include "sandbox-backend/net/deadline.h"

#define PROCESS_LATE_MS 1000 // what a template's "late" means

struct process_request;

struct machine {
    uv_loop_t *loop;
    struct subproc *process; // owned; NULL before it was started
    struct deadline ready;   // reports from the loop, never from within
    char *dir;               // owned
    char *template;          // owned; its directory
    char *vmnet;             // owned
    struct err err;
    machine_ready_cb on_ready;
    machine_exit_cb on_exit;
    void *ctx;
    int open; // handles
    bool paused;

    // How it starts (process_driver.c).
    char *image, *guest, *init_mode, *how; // owned; image may be NULL
    uv_work_t copying_in;

    // Requests (process_request.c).
    STAILQ_HEAD(process_requests, process_request) requests;
    struct deadline turn; // serves them
    bool copying;         // a thread writes an image
    char *exit_reason;    // owned; it ended by itself: on_exit when all requests are answered
    bool ending;          // it was killed or released: on_gone when all requests are answered
    bool released;
    void (*on_gone)(void *ctx);
    void *gone_ctx;
};

// process_driver.c
void process__keep_policy(const struct machine *m, const struct net_policy *policy, struct err *e);
json_t *process__template_json(const char *dir, struct err *e);
void process__close(struct machine *m); // frees it from the loop, then on_gone

// process_request.c
void process__turn(struct deadline *d); // of `turn`

// process_machine.c
void process__note(const char *dir, const char *what); // a line in the machine's calls.log
