// SPDX-License-Identifier: Apache-2.0
// A tracee: a stopped process of the guest, whose memory `fold` reads, and which `fold` makes call
// the guest kernel (ptrace(2)).
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "sandbox-backend/base/err.h"

#define TRACEE_THREADS_MAX 256

struct tracee {
    pid_t pid;
    pid_t threads[TRACEE_THREADS_MAX];
    int signals[TRACEE_THREADS_MAX]; // to be delivered when it goes on; 0: none
    int thread_count;
    int memory;                    // descriptor of /proc/PID/mem; or -1
    struct user_regs_struct saved; // of the first thread, between begin and end
    uint64_t saved_word;           // the code at its instruction pointer
};

// Stop all threads of the process. ERR_GONE: it has ended. The caller calls tracee_leave in any
// case.
int tracee_stop(struct tracee *t, pid_t pid, struct err *e);
// Let the process go on. After tracee_calls_begin, call tracee_calls_end first.
void tracee_leave(struct tracee *t);

// Read memory of the process. Return the number of bytes that were read, which is less than `len`
// at a hole.
size_t tracee_read(const struct tracee *t, uint64_t address, void *out, size_t len);

int tracee_calls_begin(struct tracee *t, struct err *e);
// Make the process call the guest kernel. Return the result: -errno for a failure.
long tracee_call(struct tracee *t, long number, const uint64_t args[6]);
// Put a text into unused memory of the process, for the next call. Return its address, or 0.
uint64_t tracee_text(const struct tracee *t, const char *text);
// Restore the registers. The process then goes on as if it had made none of these calls; a system
// call in which it was stopped begins again.
int tracee_calls_end(struct tracee *t, struct err *e);
