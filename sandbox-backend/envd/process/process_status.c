// SPDX-License-Identifier: Apache-2.0
// The end of a command: its wait status in words, and whether memory ran out.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/envd/process/process_internal.h"

#define OOM_FIELD    "\noom_kill "
#define VMSTAT_BYTES 16384

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

// The count covers the whole guest (proc(5), /proc/vmstat). A count for each command needs the
// memory controller in its cgroup, which then acts on every page of every command.

int process__oom_open(void)
{
    return open("/proc/vmstat", O_RDONLY | O_CLOEXEC);
}

int64_t process__oom_kills(int fd)
{
    static char text[VMSTAT_BYTES]; // one loop, one thread
    size_t len = 0;
    ssize_t n;
    while (fd >= 0 && len < sizeof text - 1 &&
           (n = pread(fd, text + len, sizeof text - 1 - len, (off_t)len)) > 0) {
        len += (size_t)n;
        text[len] = '\0';
        const char *field = strstr(text, OOM_FIELD);
        if (field && strchr(field + 1, '\n'))
            return strtoll(field + strlen(OOM_FIELD), NULL, 10);
    }
    return 0;
}
