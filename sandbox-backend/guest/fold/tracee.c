// SPDX-License-Identifier: Apache-2.0
// A stopped process of the guest (ptrace(2)).
#include "sandbox-backend/guest/fold/tracee.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define STAT_BYTES_MAX 4096
#define CALL_CODE      0xcc050fUL // syscall, then int3
#define CALL_MASK      0xffffffUL
#define CALL_BYTES     2    // of the instruction syscall
#define STACK_DISTANCE 8192 // below the stack pointer nothing is in use
#define EVENT_SHIFT    16   // of a stop's status

// Results of calls that a signal has interrupted. Only the kernel sees these
// (include/linux/errno.h).
enum { RESTART_FIRST = 512, RESTART_LAST = 514, RESTART_BLOCK = 516 };

// A thread that has ended, and whose parent has not been told, cannot be traced (EPERM).
static bool has_ended(pid_t process, pid_t thread)
{
    char path[64], state = 'X';
    struct buf text auto_buf = BUF_INIT;
    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", (int)process, (int)thread);
    if (file_read(path, STAT_BYTES_MAX, &text, NULL) < 0)
        return true;
    const char *name_end = strrchr(buf_str(&text), ')'); // a name may have spaces
    return !name_end || sscanf(name_end, ") %c", &state) != 1 || state == 'Z' || state == 'X';
}

static int seize(struct tracee *t, pid_t thread, struct err *e)
{
    if (ptrace(PTRACE_SEIZE, thread, NULL, NULL) < 0) {
        int sys = errno;
        return sys == ESRCH || (sys == EPERM && has_ended(t->pid, thread))
                   ? err_set(e, ERR_GONE, "process %d has ended", (int)t->pid)
                   : err_sys(e, sys, "trace process %d", (int)t->pid);
    }
    t->threads[t->thread_count++] = thread;
    if (ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) < 0)
        return err_sys(e, errno, "stop process %d", (int)t->pid);
    return 0;
}

// Wait until a thread stands still. *signal is set if a signal stopped it.
static int await_stop(pid_t thread, int *signal, struct err *e)
{
    int status = 0;
    if (waitpid(thread, &status, __WALL) < 0)
        return err_sys(e, errno, "wait for process %d", (int)thread);
    if (!WIFSTOPPED(status))
        return err_set(e, ERR_GONE, "process %d has ended", (int)thread);
    *signal = status >> EVENT_SHIFT ? 0 : WSTOPSIG(status);
    return 0;
}

// Stop a thread. A thread that ends meanwhile is no error, unless it is the first.
static int stop_thread(struct tracee *t, pid_t thread, struct err *e)
{
    struct err failed = ERR_INIT;
    int before = t->thread_count;
    if (seize(t, thread, &failed) == 0 && await_stop(thread, &t->signals[before], &failed) == 0)
        return 0;
    if (failed.code != ERR_GONE || thread == t->pid)
        return err_set(e, failed.code, "%s", failed.msg);
    t->thread_count = before;
    return 0;
}

static bool has_thread(const struct tracee *t, pid_t thread)
{
    for (int i = 0; i < t->thread_count; i++)
        if (t->threads[i] == thread)
            return true;
    return false;
}

// Stop the listed threads that still run. *found: there was such a thread.
static int stop_listed(struct tracee *t, bool *found, struct err *e)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)t->pid);
    DIR *threads = opendir(path);
    if (!threads)
        return err_set(e, ERR_GONE, "process %d has ended", (int)t->pid);
    int result = 0;
    for (const struct dirent *entry; result == 0 && (entry = readdir(threads));) {
        int64_t thread = 0;
        if (!str_to_int(entry->d_name, 1, INT32_MAX, &thread) || has_thread(t, (pid_t)thread))
            continue;
        int before = t->thread_count;
        result = t->thread_count == TRACEE_THREADS_MAX
                     ? err_set(e, ERR_LIMIT, "process %d has too many threads", (int)t->pid)
                     : stop_thread(t, (pid_t)thread, e);
        *found |= t->thread_count > before;
    }
    closedir(threads);
    return result;
}

// A thread that still runs may start another one behind the reader of the list.
int tracee_stop(struct tracee *t, pid_t pid, struct err *e)
{
    char path[64];
    *t = (struct tracee){.pid = pid, .memory = -1};
    int result = 0;
    for (bool found = true; found && result == 0;) {
        found = false;
        result = stop_listed(t, &found, e);
    }
    snprintf(path, sizeof path, "/proc/%d/mem", (int)pid);
    t->memory = result < 0 ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    return result < 0 || t->memory >= 0 ? result : err_sys(e, errno, "open %s", path);
}

void tracee_leave(struct tracee *t)
{
    for (int i = 0; i < t->thread_count; i++)
        ptrace(PTRACE_DETACH, t->threads[i], NULL, (void *)(intptr_t)t->signals[i]);
    t->thread_count = 0;
    mem_close_fd(&t->memory);
    t->memory = -1;
}

size_t tracee_read(const struct tracee *t, uint64_t address, void *out, size_t len)
{
    size_t got = 0;
    while (got < len) {
        ssize_t n = pread(t->memory, (char *)out + got, len - got, (off_t)(address + got));
        if (n <= 0)
            break;
        got += (size_t)n;
    }
    return got;
}

// ---- calls
#if defined(__x86_64__)
static int poke(pid_t thread, uint64_t address, uint64_t word)
{
    return ptrace(PTRACE_POKEDATA, thread, (void *)address, (void *)word) < 0 ? -1 : 0;
}

int tracee_calls_begin(struct tracee *t, struct err *e)
{
    pid_t thread = t->threads[0];
    if (ptrace(PTRACE_GETREGS, thread, NULL, &t->saved) < 0)
        return err_sys(e, errno, "read the registers of process %d", (int)t->pid);
    if (tracee_read(t, t->saved.rip, &t->saved_word, sizeof t->saved_word) < sizeof t->saved_word ||
        poke(thread, t->saved.rip, (t->saved_word & ~CALL_MASK) | CALL_CODE) < 0)
        return err_set(e, ERR_INTERNAL, "process %d cannot be made to call the guest kernel",
                       (int)t->pid);
    return 0;
}

long tracee_call(struct tracee *t, long number, const uint64_t args[6])
{
    struct user_regs_struct r = t->saved;
    pid_t thread = t->threads[0];
    int signal = 0;
    r.rax = (unsigned long long)number;
    r.orig_rax = ~0ULL; // no call, so the kernel repeats none
    r.rdi = args[0];
    r.rsi = args[1];
    r.rdx = args[2];
    r.r10 = args[3];
    r.r8 = args[4];
    r.r9 = args[5];
    if (ptrace(PTRACE_SETREGS, thread, NULL, &r) < 0)
        return -errno;
    while (signal != SIGTRAP) {
        if (ptrace(PTRACE_CONT, thread, NULL, NULL) < 0 || await_stop(thread, &signal, NULL) < 0)
            return -ESRCH;
        if (signal && signal != SIGTRAP)
            t->signals[0] = signal;
    }
    return ptrace(PTRACE_GETREGS, thread, NULL, &r) < 0 ? -errno : (long)r.rax;
}

uint64_t tracee_text(const struct tracee *t, const char *text)
{
    uint64_t at = (t->saved.rsp - STACK_DISTANCE) & ~(uint64_t)15;
    size_t len = strlen(text) + 1;
    for (size_t i = 0; i < len; i += sizeof(uint64_t)) {
        uint64_t word = 0;
        memcpy(&word, text + i, len - i < sizeof word ? len - i : sizeof word);
        if (poke(t->threads[0], at + i, word) < 0)
            return 0;
    }
    return at;
}

// The kernel has forgotten by now that the process was in a call, so what it would do at its end is
// done here: the call is made again, or has been interrupted, as by a signal.
int tracee_calls_end(struct tracee *t, struct err *e)
{
    struct user_regs_struct *r = &t->saved;
    int restored = poke(t->threads[0], r->rip, t->saved_word);
    long result = -(long)r->rax;
    if ((long)r->orig_rax >= 0 && result >= RESTART_FIRST && result <= RESTART_LAST) {
        r->rax = r->orig_rax;
        r->rip -= CALL_BYTES;
    } else if ((long)r->orig_rax >= 0 && result == RESTART_BLOCK) {
        r->rax = (unsigned long long)-EINTR;
    }
    r->orig_rax = ~0ULL;
    if (restored < 0 || ptrace(PTRACE_SETREGS, t->threads[0], NULL, r) < 0)
        return err_set(e, ERR_INTERNAL, "the registers of process %d cannot be restored",
                       (int)t->pid);
    return 0;
}
#else
// Only x86-64 so far.
int tracee_calls_begin(struct tracee *t, struct err *e)
{
    return err_set(e, ERR_UNIMPLEMENTED,
                   "on this processor process %d cannot be made to call the guest kernel",
                   (int)t->pid);
}

long tracee_call(struct tracee *t, long number, const uint64_t args[6])
{
    (void)t;
    (void)number;
    (void)args;
    return -ENOSYS;
}

uint64_t tracee_text(const struct tracee *t, const char *text)
{
    (void)t;
    (void)text;
    return 0;
}

int tracee_calls_end(struct tracee *t, struct err *e)
{
    return tracee_calls_begin(t, e);
}
#endif
