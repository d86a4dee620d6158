// SPDX-License-Identifier: Apache-2.0
// Starting a process in the jail that the daemon wants and this host can build.
#pragma once
#include "sandbox-backend/drivers/host/subproc.h"
#include "sandbox-backend/jail/jail.h"

struct jailed_program {
    enum jail_kind kind;
    const char *const *files; // NULL-terminated: files that it needs beside itself and its
                              // libraries; missing files are left out. NULL: none
    bool is_own;       // of JAIL_VMM: it is Cubby's, as all of the other kinds are, so a build
                       // with sanitizers has them in it, too
    bool kvm;          // it needs /dev/kvm
    bool resolves;     // it needs /etc/resolv.conf
    const char *share; // JAIL_FILES: its directory; NULL: none
    int share_fd;      // the same directory, as the program's descriptor of this number
    bool share_read_only;
};

// Do the same as subproc_start, with opts->file in the jail, or in none if no jail is wanted.
struct subproc *jailed_start(uv_loop_t *loop, const struct jailed_program *program,
                             const struct spawn_opts *opts, subproc_exit_cb on_exit, void *ctx,
                             struct err *e);

// Start a process that kills `guarded` when this program ends, for any reason, and that ends with
// it. This is for a process that cannot have a parent-death signal.
struct subproc *jailed_guard(uv_loop_t *loop, const struct subproc *guarded,
                             subproc_exit_cb on_exit, void *ctx, struct err *e);
