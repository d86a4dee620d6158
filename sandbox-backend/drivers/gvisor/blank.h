// SPDX-License-Identifier: Apache-2.0
// Blanks: sentries that are created before the state that they will restore is known.
//
// A blank for an image is created while the image is still being written. A fork takes less time
// that way, because both take some 100 ms. It is for one machine; if no machine takes it, it is
// ended. A blank without an image is a spare (host/spares.h): it serves the next machine of its
// template that has the template's size. A daemon that was killed leaves a directory that the next
// daemon sweeps, with the sentry (container_dir.h).
#pragma once
#include <uv.h>

#include "sandbox-backend/drivers/gvisor/bundle.h"
#include "sandbox-backend/drivers/gvisor/container_dir.h"
#include "sandbox-backend/drivers/host/spares.h"
#include "sandbox-backend/drivers/host/subproc.h"

struct blank;

// Begin to make a blank for an image that will be in the directory `image`, unless a spare can
// serve it. Failures are ignored: the machine then starts without it.
void blank_start(uv_loop_t *loop, const char *runsc, const char *template_dir,
                 const struct bundle_template *facts, const char *image);
extern struct spares blank_spares;
void blank_expect(const char *image);  // the image is there: end its blank unless it is taken soon
void blank_drop_of(const char *image); // there will be no such image
void blanks_close(void);               // end all

// Take the blank of an image, else a spare of the template that fits the size, for the caller to
// yield or to drop, or return NULL. image: NULL for a machine of the template's own state.
struct blank *blank_take(const char *image, const char *template_dir,
                         const struct machine_size *size);
void blank_drop(struct blank *b); // NULL is fine
// Return whether a machine with these facts can use it. For any thread.
bool blank_fits(const struct blank *b, const struct bundle_template *facts);

// Hand over its directory, in place of that in *dir, and its log. `done` gets the wait status of
// `runsc create`: when it ends if it still runs, which is returned, borrowed; else in blank_tell,
// which the caller then calls.
typedef void blank_done(int status, void *ctx);
struct subproc *blank_yield(struct blank *b, struct container_dir *dir, int *log, blank_done *done,
                            void *ctx);
void blank_tell(struct blank *b);
