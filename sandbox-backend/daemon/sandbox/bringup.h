// SPDX-License-Identifier: Apache-2.0
// Bring-up: the steps from a directory to a guest that has its settings. Create, the pool, wake,
// rollback and hand-out share these steps. Each adds its own checks before, and sets the state and
// the record after.
//
//  1. Create the directory, or remove the files of an earlier machine from it (on a thread).
//  2. Fill the machine_spec for the driver, with the sandbox's secrets for cubby-egress.
//  3. The driver makes the machine, from its template or from an image.
//  4. Wait until the machine is ready, or has failed.
//  5. POST /init to envd: token, environment, clock, host name, entropy.
//  6. Wait for the answer 204: the guest is usable. If the machine ends first, that is a failure.
//  7. After a failure: end the machine, and close the connections to it. If the machine was made of
//     a spare (drivers/host/spares.h), repeat steps 1 to 6 once, without one: the spare may have
//     ended while it waited, or as it was taken.
//
// A frozen machine needs only steps 5 to 7. The daemon sends /init and resumes the machine, whose
// first work is then that request. After a failure the machine is frozen again.
//
// The callback comes exactly once, from the loop, never inside the call. It does not come if the
// sandbox is being ended (bringup_cancel). The sandbox is held (ending.h) until then.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"

struct machine;
struct sandbox;

enum bringup_dir {
    BRINGUP_DIR_NEW,        // create it
    BRINGUP_DIR_STRIP,      // remove all but the record, the aside directory, and the image
    BRINGUP_DIR_DROP_IMAGE, // remove all but the record and the aside directory
};

// The kinds of /init request.
enum bringup_init {
    // All settings of the sandbox: token (NULL removes the guest's), host name, clock, entropy, and
    // the environment: `env`, and the variables that tell a program where it runs.
    BRINGUP_INIT_ALL,
    // All settings, for a guest that was made from another sandbox's image. Its envd requires
    // `token`. The guest keeps its variables unless new ones replace them.
    BRINGUP_INIT_IMAGE,
    // Only the clock, for a guest that was frozen, and entropy, because another guest may be made
    // from the same image.
    BRINGUP_INIT_CLOCK,
};
#define BRINGUP_INIT_MS 20000 // from the machine's start to envd's answer

struct bringup_spec {
    enum bringup_dir dir;
    bool background;    // run only on idle processors (machine_set_background); the time limits are
                        // longer then
    char *template_dir; // owned
    char *image;        // owned; NULL: start from the template
    enum bringup_init what;
    char *token; // owned; of BRINGUP_INIT_IMAGE; NULL: none
    json_t *env; // owned; may be NULL
};
void bringup_spec_fini(struct bringup_spec *spec);

// `ready_ms`: the instant at which the machine was ready, on the monotonic clock; 0: the machine
// was never ready. If `e` is NULL, the guest is usable and sb->machine is its machine. Otherwise
// sb->machine is NULL, or frozen as it was before.
typedef void (*bringup_cb)(struct sandbox *sb, int64_t ready_ms, const struct err *e, void *ctx);

// Make a machine. This takes what `spec` owns. Return -1 with `e`, and call no callback, if that
// fails at once.
int bringup_start(struct sandbox *sb, struct bringup_spec *spec, bringup_cb cb, void *ctx,
                  struct err *e);
// Resume the sandbox's machine, if it is frozen, and post /init.
void bringup_continue(struct sandbox *sb, enum bringup_init what, json_t *env, bringup_cb cb,
                      void *ctx);

// For ending.c: give up, because the sandbox is being ended. The callback does not come.
void bringup_cancel(struct sandbox *sb);
// Give up bringup_continue, because the machine has ended and the sandbox gets another one. The
// callback does not come. Does nothing without a bring-up.
void bringup_leave(struct sandbox *sb);
// The machine ended by itself. Return true if a bring-up handles that.
bool bringup_on_exit(struct sandbox *sb, const struct machine *m, const char *reason);
