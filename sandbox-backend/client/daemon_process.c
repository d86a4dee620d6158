// SPDX-License-Identifier: Apache-2.0
// Starts the daemon as a process, and reads its log.
//
// The daemon outlives the process that starts it, and serves others. So it gets a process session
// of its own, no descriptors but the log and the ready pipe, and only the environment variables
// that concern it: an agent's environment is full of secrets.
#include "sandbox-backend/client/daemon_process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define READY_FD      3 // in the daemon
#define LOG_TAIL_READ 4096
#define LOG_TAIL_SHOW 180
#define ENV_MAX       64

struct daemon_process {
    uv_process_t process;
    struct daemon_process **list; // the list that it is in; borrowed
    struct daemon_process *next;
    struct daemon_exit *exit; // borrowed; NULL when a later start has taken it over
};

static bool concerns_daemon(const char *variable)
{
    static const char *const NAMES[] = {
        "PATH=",   "HOME=", "USER=",  "LOGNAME=",      "LANG=",          "LC_",
        "TMPDIR=", "TZ=",   "CUBBY_", "ASAN_OPTIONS=", "UBSAN_OPTIONS=", "LSAN_OPTIONS="};
    if (str_starts(variable, "CUBBY_HOME="))
        return false; // set from the resolved path instead
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++)
        if (str_starts(variable, NAMES[i]))
            return true;
    return false;
}

static void choose_env(char *env[ENV_MAX], char *home_variable)
{
    int n = 0;
    env[n++] = home_variable;
    for (char **at = environ; *at && n < ENV_MAX - 1; at++)
        if (concerns_daemon(*at))
            env[n++] = *at;
    env[n] = NULL;
}

static void on_child_closed(uv_handle_t *handle)
{
    free(container_of((uv_process_t *)handle, struct daemon_process, process));
}

static void child_close(struct daemon_process *child)
{
    struct daemon_process **at = child->list;
    while (*at != child)
        at = &(*at)->next;
    *at = child->next;
    uv_close((uv_handle_t *)&child->process, on_child_closed);
}

static void on_child_exit(uv_process_t *process, int64_t status, int signal)
{
    struct daemon_process *child = container_of(process, struct daemon_process, process);
    struct daemon_exit *x = child->exit;
    child_close(child);
    if (!x)
        return;
    x->is_known = true;
    x->status = (int)status;
    x->signal = signal;
    x->on_known(x->ctx);
}

// A daemon that was started earlier no longer reports its exit.
static void forget_exits(struct daemon_process *list)
{
    for (struct daemon_process *child = list; child; child = child->next)
        child->exit = NULL;
}

int daemon_process_spawn(struct daemon_process **list, uv_loop_t *loop,
                         const struct daemon_process_opts *opts, struct err *e)
{
    char fd_number[] = {'0' + READY_FD, '\0'};
    char name[] = "cubbyd";
    char option[] = "--ready-fd";
    char *args[] = {name, option, fd_number, NULL};
    char *home_variable auto_free = str_printf("CUBBY_HOME=%s", opts->home);
    char *env[ENV_MAX];
    choose_env(env, home_variable);
    uv_stdio_container_t stdio[READY_FD + 1] = {
        {.flags = UV_IGNORE},
        {.flags = UV_INHERIT_FD, .data.fd = opts->log},
        {.flags = UV_INHERIT_FD, .data.fd = opts->log},
        {.flags = UV_INHERIT_FD, .data.fd = opts->ready},
    };
    const uv_process_options_t options = {
        .exit_cb = on_child_exit,
        .file = opts->program,
        .args = args,
        .env = env,
        .cwd = "/",
        .flags = UV_PROCESS_DETACHED,
        .stdio_count = READY_FD + 1,
        .stdio = stdio,
    };
    forget_exits(*list);
    struct daemon_process *child = xcalloc(1, sizeof *child);
    child->exit = opts->exit;
    child->list = list;
    child->next = *list;
    *list = child;
    int rc = uv_spawn(loop, &child->process, &options);
    uv_unref((uv_handle_t *)&child->process);
    if (rc == 0)
        return 0;
    child_close(child);
    return err_sys(e, -rc, "start %s", opts->program);
}

// ---- the log
int daemon_log_open(const char *home, int64_t *from, struct err *e)
{
    char *path auto_free = home_path(home, "cubbyd.log");
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(e, errno, "open %s", path);
    *from = lseek(fd, 0, SEEK_END);
    return fd;
}

void daemon_log_tail(const char *home, int64_t log_from, struct buf *out)
{
    char *path auto_free = home_path(home, "cubbyd.log");
    int fd auto_close = open(path, O_RDONLY | O_CLOEXEC);
    int64_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
    if (size < log_from) // truncated meanwhile
        log_from = 0;
    int64_t from = size - log_from > LOG_TAIL_READ ? size - LOG_TAIL_READ : log_from;
    char text[LOG_TAIL_READ + 1];
    ssize_t n = fd < 0 || size <= from ? 0 : pread(fd, text, LOG_TAIL_READ, from);
    while (n > 0 && text[n - 1] == '\n')
        n--;
    text[n > 0 ? n : 0] = '\0';
    const char *start = n > LOG_TAIL_SHOW ? text + n - LOG_TAIL_SHOW : text;
    const char *line = start == text ? start : strchr(start, '\n');
    for (const char *p = line ? line : start; *p; p++)
        buf_adds(out, *p == '\n' ? " | " : (char[]){*p, '\0'});
}

void daemon_process_close_all(struct daemon_process **list)
{
    while (*list)
        child_close(*list);
}
