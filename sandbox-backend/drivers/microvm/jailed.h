// SPDX-License-Identifier: Apache-2.0
// Starting a process in the jail that the daemon wants and this host can build.
#pragma once
#include "sandbox-backend/drivers/microvm/subproc.h"
#include "sandbox-backend/jail/jail.h"

struct jailed_program {
    enum jail_kind kind;
    const char *const *files; // NULL-terminated: what it needs beside itself and its libraries;
                              // those that are not there are left out. NULL: nothing
    bool kvm;                 // it needs /dev/kvm
    bool resolves;            // it needs /etc/resolv.conf
};

// As subproc_start, with opts->file in the jail; without any where none is wanted.
struct subproc *jailed_start(uv_loop_t *loop, const struct jailed_program *program,
                             const struct spawn_opts *opts, subproc_exit_cb on_exit, void *ctx,
                             struct err *e);
