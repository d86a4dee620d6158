// SPDX-License-Identifier: Apache-2.0
// A wait status in words.
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/envd/process_internal.h"

// Go's names (syscall.Signal.String), which E2B's SDKs show.
static const char *signal_name(int signal)
{
    static const char *const NAMES[] = {
        [SIGHUP] = "hangup",
        [SIGINT] = "interrupt",
        [SIGQUIT] = "quit",
        [SIGILL] = "illegal instruction",
        [SIGTRAP] = "trace/breakpoint trap",
        [SIGABRT] = "aborted",
        [SIGBUS] = "bus error",
        [SIGFPE] = "floating point exception",
        [SIGKILL] = "killed",
        [SIGUSR1] = "user defined signal 1",
        [SIGSEGV] = "segmentation fault",
        [SIGUSR2] = "user defined signal 2",
        [SIGPIPE] = "broken pipe",
        [SIGALRM] = "alarm clock",
        [SIGTERM] = "terminated",
    };
    return signal > 0 && signal < (int)ARRAY_LEN(NAMES) ? NAMES[signal] : NULL;
}

#define OUT_OF_MEMORY " (out of memory)"

void process__describe(struct process_end *end, int status, bool out_of_memory)
{
    end->exited = WIFEXITED(status);
    end->exit_code = end->exited ? WEXITSTATUS(status) : -1;
    end->failed = end->exit_code != 0;
    const char *note = out_of_memory ? OUT_OF_MEMORY : "";
    if (end->exited) {
        snprintf(end->status, sizeof end->status, "exit status %d%s", end->exit_code, note);
        return;
    }
    const char *name = signal_name(WTERMSIG(status));
    if (WCOREDUMP(status))
        note = " (core dumped)";
    if (name)
        snprintf(end->status, sizeof end->status, "signal: %s%s", name, note);
    else
        snprintf(end->status, sizeof end->status, "signal: signal %d%s", WTERMSIG(status), note);
}
