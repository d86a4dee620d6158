// SPDX-License-Identifier: Apache-2.0
#include "tests/lib/process_driver/process_tree.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

typedef void (*child_cb)(pid_t child, void *ctx);

// Call `cb` for each thread of the process: each thread has its own list of children.
static void each_task(pid_t pid, void (*cb)(pid_t pid, const char *tid, void *ctx), void *ctx)
{
    char *path auto_free = str_printf("/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    if (!tasks)
        return;
    for (struct dirent *entry; (entry = readdir(tasks));)
        if (entry->d_name[0] != '.')
            cb(pid, entry->d_name, ctx);
    closedir(tasks);
}

struct child_walk {
    child_cb cb;
    void *ctx;
};

static void walk_children(pid_t pid, const char *tid, void *ctx)
{
    const struct child_walk *walk = ctx;
    char *path auto_free = str_printf("/proc/%d/task/%s/children", (int)pid, tid);
    struct buf text auto_buf = BUF_INIT;
    char *rest = NULL;
    if (file_read(path, 65536, &text, NULL) < 0 || text.len == 0)
        return;
    for (char *word = strtok_r(text.data, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        walk->cb((pid_t)atoi(word), walk->ctx);
}

static void each_child(pid_t pid, child_cb cb, void *ctx)
{
    each_task(pid, walk_children, &(struct child_walk){cb, ctx});
}

static void signal_child(pid_t child, void *ctx)
{
    process_tree_signal(child, *(const int *)ctx);
}

void process_tree_signal(pid_t pid, int number)
{
    if (number == SIGSTOP)
        kill(pid, number);
    each_child(pid, signal_child, &number);
    if (number != SIGSTOP)
        kill(pid, number);
}

// Read the state, which follows the name. The name may hold any text; the last ")" closes it
// (proc(5)).
static void see_task(pid_t pid, const char *tid, void *ctx)
{
    char *path auto_free = str_printf("/proc/%d/task/%s/stat", (int)pid, tid);
    struct buf text auto_buf = BUF_INIT;
    const char *end = file_read(path, 4096, &text, NULL) < 0 ? NULL : strrchr(buf_str(&text), ')');
    if (end && end[1] == ' ' && !strchr("TtZX", end[2]))
        *(bool *)ctx = false;
}

static void see_child(pid_t child, void *ctx)
{
    bool *stopped = ctx;
    *stopped = *stopped && process_tree_is_stopped(child);
}

bool process_tree_is_stopped(pid_t pid)
{
    bool stopped = true;
    each_task(pid, see_task, &stopped);
    if (stopped)
        each_child(pid, see_child, &stopped);
    return stopped;
}

static void see_stop(pid_t pid, const char *tid, void *ctx)
{
    char *path auto_free = str_printf("/proc/%d/task/%s/status", (int)pid, tid);
    struct buf text auto_buf = BUF_INIT;
    unsigned long long pending = 0;
    if (file_read(path, 16384, &text, NULL) < 0)
        return;
    const char *state = strstr(buf_str(&text), "\nState:\tT");
    const char *shared = strstr(buf_str(&text), "\nShdPnd:");
    if (state || (shared && sscanf(shared, "\nShdPnd: %llx", &pending) == 1 &&
                  pending & 1ull << (SIGSTOP - 1)))
        *(bool *)ctx = true;
}

bool process_tree_is_stopping(pid_t pid)
{
    bool stopping = false;
    each_task(pid, see_stop, &stopping);
    return stopping;
}

struct usage {
    int64_t *memory_bytes, *cpu_ns;
};

static void add_child(pid_t child, void *ctx)
{
    const struct usage *u = ctx;
    process_tree_usage(child, u->memory_bytes, u->cpu_ns);
}

void process_tree_usage(pid_t pid, int64_t *memory_bytes, int64_t *cpu_ns)
{
    char *path auto_free = str_printf("/proc/%d/statm", (int)pid);
    char *stat auto_free = str_printf("/proc/%d/stat", (int)pid);
    struct buf pages auto_buf = BUF_INIT, times auto_buf = BUF_INIT;
    long resident = 0, shared = 0;
    unsigned long user = 0, system = 0;
    if (file_read(path, 4096, &pages, NULL) == 0 &&
        sscanf(buf_str(&pages), "%*d %ld %ld", &resident, &shared) == 2)
        *memory_bytes += (int64_t)(resident - shared) * sysconf(_SC_PAGESIZE);
    const char *end =
        file_read(stat, 4096, &times, NULL) < 0 ? NULL : strrchr(buf_str(&times), ')');
    if (end && sscanf(end + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
                      &system) == 2)
        *cpu_ns += (int64_t)(user + system) * (1000000000 / sysconf(_SC_CLK_TCK));
    each_child(pid, add_child, &(struct usage){memory_bytes, cpu_ns});
}
