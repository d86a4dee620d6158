// SPDX-License-Identifier: Apache-2.0
// The process of a running build, `cubby template build <template> --plan FILE --json`: its lines
// of progress become entries of the log. docs/templates.md has their format.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fault.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/builds/builds_internal.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/drivers/host/subproc.h"
#include "sandbox-backend/log/log.h"

#define LINE_BYTES_MAX (1 << 20)
#define READ_BYTES     65536
#define READS_MAX      64                // after the end of the process; a pipe holds less
#define BUILD_MAX_MS   (4 * 3600 * 1000) // longest build
#define END_WAIT_MS    30000             // from SIGTERM to SIGKILL
#define TAIL_BYTES     300               // of stderr, in a message

struct engine {
    struct build *build;
    struct subproc *child;
    uv_poll_t poll; // of fd
    int fd;         // owned; reads the process's standard output
    struct buf line;
    struct deadline timer;
    int step;  // E2B's number of the present step; 0: the base; -1: after the last
    bool done; // the process said that the template is ready
    bool killed;
    char *message, *failed_step; // owned; what the process said of its failure
    int closing;                 // handles that are still open
};

static void on_readable(uv_poll_t *poll, int status, int events);
static void on_child_exit(struct subproc *child, int status, void *ctx);
static void on_timer(struct deadline *timer);

// ---- 1. start
// Return the environment of the process: this one's, with the home. Only the array and the last
// entry are new.
static char **make_env(const char *home, char **own)
{
    size_t count = 0, used = 0;
    while (environ[count])
        count++;
    char **env = xcalloc(count + 2, sizeof *env);
    for (size_t i = 0; i < count; i++)
        if (!str_starts(environ[i], "CUBBY_HOME="))
            env[used++] = environ[i];
    *own = env[used] = str_printf("CUBBY_HOME=%s", home);
    return env;
}

static int spawn(struct engine *g, int out, int log, struct err *e)
{
    struct build *b = g->build;
    struct store *store = b->all->store;
    char *program auto_free = self_program("cubby", e);
    char *plan auto_free = str_printf("%s/plan.json", b->dir);
    char *own auto_free = NULL;
    if (!program)
        return -1;
    const char *const argv[] = {program,  "template", "build",  b->template,
                                "--plan", plan,       "--json", NULL};
    char **env auto_free = make_env(store->home, &own);
    const int fds[] = {-1, out, log};
    const struct spawn_opts opts = {.file = program,
                                    .argv = (char *const *)(uintptr_t)argv,
                                    .env = env,
                                    .fds = fds,
                                    .fd_count = 3,
                                    .dies_with_us = true};
    g->child = subproc_start(store->loop, &opts, on_child_exit, g, e);
    return g->child ? 0 : -1;
}

static int start_process(struct engine *g, struct err *e)
{
    int ends[2];
    char *path auto_free = str_printf("%s/stderr", g->build->dir);
    int log auto_close = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (log < 0)
        return err_sys(e, errno, "create %s", path);
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_sys(e, errno, "make a pipe");
    int out auto_close = ends[1];
    g->fd = ends[0];
    return fd_set_nonblock(g->fd, e) < 0 ? -1 : spawn(g, out, log, e);
}

int engine__start(struct build *b, struct err *e)
{
    uv_loop_t *loop = b->all->store->loop;
    struct engine *g = xcalloc(1, sizeof *g);
    *g = (struct engine){.build = b, .fd = -1};
    if (start_process(g, e) < 0) {
        if (g->fd >= 0)
            close(g->fd);
        free(g);
        return -1;
    }
    b->engine = g;
    uv_poll_init(loop, &g->poll, g->fd);
    uv_poll_start(&g->poll, UV_READABLE, on_readable);
    deadline_init(&g->timer, loop, on_timer);
    deadline_arm(&g->timer, BUILD_MAX_MS);
    log_info("build.started", "id=%s template=%s pid=%d", b->id, b->template,
             (int)subproc_pid(g->child));
    return 0;
}

// ---- 2. lines of progress
// Write E2B's name of a step into `out`: "base", the number of an instruction, or "finalize".
static const char *step_name(int step, char out[16])
{
    if (step < 0)
        return "finalize";
    if (step == 0)
        return "base";
    snprintf(out, 16, "%d", step);
    return out;
}

// "line" is E2B's number of the step, as the plan gave it. A step without one belongs to the base,
// or it is the last one, which makes the template.
static int step_of(const struct engine *g, const json_t *event)
{
    int line = (int)json_integer_value(json_object_get(event, "line"));
    int64_t index = json_integer_value(json_object_get(event, "index"));
    if (line > 0)
        return line;
    int64_t count = json_integer_value(json_object_get(event, "count"));
    if (index > 1 && index == count)
        return -1;
    return g->step > 0 ? g->step : 0;
}

static void on_step(struct engine *g, const json_t *event)
{
    char number[16];
    struct buf text auto_buf = BUF_INIT;
    const struct build *b = g->build;
    const char *name = json_string_value(json_object_get(event, "name"));
    g->step = step_of(g, event);
    if (json_is_true(json_object_get(event, "cached")))
        buf_adds(&text, "CACHED ");
    if (g->step > 0)
        buf_printf(&text, "[builder %d/%d] ", g->step, b->steps);
    else
        buf_adds(&text, g->step == 0 ? "[base] " : "[finalize] ");
    buf_adds(&text, name ? name : "");
    build_log_add(&g->build->log, BUILD_INFO, step_name(g->step, number), buf_str(&text), text.len);
}

static void on_log(struct engine *g, const json_t *event)
{
    char number[16];
    const json_t *text = json_object_get(event, "text");
    const char *at = json_string_value(text);
    size_t left = json_string_length(text);
    while (at && left) {
        const char *end = memchr(at, '\n', left);
        size_t len = end ? (size_t)(end - at) : left;
        if (len)
            build_log_add(&g->build->log, BUILD_INFO, step_name(g->step, number), at, len);
        left -= len + (end ? 1 : 0);
        at += len + (end ? 1 : 0);
    }
}

static void on_error(struct engine *g, const json_t *event)
{
    char number[16];
    const char *message = json_string_value(json_object_get(event, "message"));
    int line = (int)json_integer_value(json_object_get(event, "line"));
    free(g->message);
    free(g->failed_step);
    g->message = xstrdup(message ? message : "the build failed");
    g->failed_step = xstrdup(step_name(line > 0 ? line : g->step, number));
}

static void on_line(struct engine *g, const char *line, size_t len)
{
    json_t *event = json_parse(line, len, NULL);
    const char *kind = json_string_value(json_object_get(event, "event"));
    if (str_eq(kind, "step"))
        on_step(g, event);
    else if (str_eq(kind, "log"))
        on_log(g, event);
    else if (str_eq(kind, "error"))
        on_error(g, event);
    else if (str_eq(kind, "done")) {
        const json_t *template = json_object_get(event, "template");
        g->done = true;
        g->build->bytes = json_integer_value(json_object_get(template, "bytes"));
    }
    json_decref(event);
}

static void take_lines(struct engine *g)
{
    const char *end;
    while (g->line.len && (end = memchr(g->line.data, '\n', g->line.len))) {
        size_t len = (size_t)(end - g->line.data);
        on_line(g, g->line.data, len);
        buf_consume(&g->line, len + 1);
    }
    if (g->line.len > LINE_BYTES_MAX)
        buf_clear(&g->line); // no line of the contract is that long
}

// Read once. Return the count of bytes, 0 at the end of the output, or -1 when nothing is there.
static ssize_t read_output(struct engine *g)
{
    char bytes[READ_BYTES];
    ssize_t got = read(g->fd, bytes, sizeof bytes);
    if (got <= 0)
        return got;
    buf_add(&g->line, bytes, (size_t)got);
    take_lines(g);
    return got;
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct engine *g = container_of(poll, struct engine, poll);
    (void)events;
    if (status < 0 || read_output(g) == 0)
        uv_poll_stop(poll);
}

// ---- 3. an end that is asked for
void engine__end(struct build *b)
{
    struct engine *g = b->engine;
    subproc_end(g->child);
    deadline_arm(&g->timer, END_WAIT_MS);
}

static void on_timer(struct deadline *timer)
{
    struct engine *g = container_of(timer, struct engine, timer);
    if (g->killed)
        return;
    if (!g->build->stop_reason) {
        g->build->stop_reason = "the build took longer than 4 hours";
        engine__end(g->build);
        return;
    }
    g->killed = true;
    subproc_kill(g->child);
}

// ---- 4. the end of the process
// Let the tags point to the template. Only then is it usable by its name.
static int publish(struct build *b, struct err *e)
{
    const struct built_names_build made = {.id = b->id,
                                           .template = b->template,
                                           .created_ns = b->created_ns,
                                           .finished_ns = clock_wall_ns(),
                                           .bytes = b->bytes};
    FAULT("build.2");
    return built_names_add_build(&b->all->store->names, b->name, b->owner, &made, b->tags, e);
}

static void fail_by_exit(struct engine *g, int status)
{
    char how[64], tail[TAIL_BYTES + 1];
    struct build *b = g->build;
    char *path auto_free = str_printf("%s/stderr", b->dir);
    subproc_describe(status, how, sizeof how);
    file_read_tail(path, tail, TAIL_BYTES);
    char *text auto_free =
        str_printf("the build %s%s%s", how, *tail ? ": " : " without a reason", tail);
    char number[16];
    build__fail(b, step_name(g->step, number), text);
}

static void end_build(struct engine *g, int status)
{
    struct build *b = g->build;
    struct err e = ERR_INIT;
    bool fine = g->done && status != -1 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (fine && publish(b, &e) == 0) {
        FAULT("build.3");
        build__set_state(b, BUILD_READY);
    } else if (err_is(&e))
        build__fail(b, "finalize", e.msg);
    else if (b->stop_reason)
        build__fail(b, NULL, b->stop_reason);
    else if (g->message)
        build__fail(b, g->failed_step, g->message);
    else
        fail_by_exit(g, status);
}

static void on_handle_closed(struct engine *g)
{
    if (--g->closing > 0)
        return;
    close(g->fd);
    buf_fini(&g->line);
    free(g->message);
    free(g->failed_step);
    free(g);
}

static void on_poll_closed(uv_handle_t *handle)
{
    on_handle_closed(container_of((uv_poll_t *)handle, struct engine, poll));
}

static void on_child_closed(void *ctx)
{
    on_handle_closed(ctx);
}

static void on_timer_closed(struct deadline *timer)
{
    on_handle_closed(container_of(timer, struct engine, timer));
}

static void on_child_exit(struct subproc *child, int status, void *ctx)
{
    struct engine *g = ctx;
    struct build *b = g->build;
    (void)child;
    for (int i = 0; i < READS_MAX && read_output(g) > 0; i++)
        continue; // a process that it left behind may hold the pipe open, and write
    end_build(g, status);
    b->engine = NULL;
    g->closing = 3;
    uv_close((uv_handle_t *)&g->poll, on_poll_closed);
    deadline_close(&g->timer, on_timer_closed);
    subproc_close(g->child, on_child_closed, g);
    builds__on_ended(b);
}
