// SPDX-License-Identifier: Apache-2.0
// The preparation of this computer: the process of `cubby setup --prepare`.
#include "mcp-server/context/prepare.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "mcp-server/context/context.h"
#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"

#define PROGRAM    "cubby"
#define LOG_NAME   "prepare.log"
#define TAIL_BYTES 2000
#define ERROR_LEAD PROGRAM ": "

// failed -> runs when it is tried again.
enum phase { PHASE_RUNS, PHASE_DONE, PHASE_FAILED };

struct prepare {
    enum phase phase;
    bool is_told; // the failure was returned
    char *why;    // owned: of a failure
    char *home;   // owned
    LIST_HEAD(, prepare_waiter) waiters;
};

// A process, which lives longer than `prepare` if the server ends first.
struct prepare_child {
    uv_process_t process;
    struct prepare *prepare; // NULL: the server ends
};

static void set_phase(struct prepare *p, enum phase next)
{
    assert(next == PHASE_RUNS ? p->phase == PHASE_FAILED : p->phase == PHASE_RUNS);
    log_debug("prepare.phase", "from=%d to=%d", p->phase, next);
    p->phase = next;
}

// ---- what it printed

// Read the end of its log. New string.
static char *log_tail(const struct prepare *p)
{
    char tail[TAIL_BYTES + 1] = "";
    char *path auto_free = home_path(p->home, LOG_NAME);
    file_read_tail(path, tail, TAIL_BYTES);
    return xstrdup(tail);
}

char *prepare_text(const struct context *cx)
{
    char *tail auto_free = cx->prepare ? log_tail(cx->prepare) : xstrdup("");
    const char *line = strrchr(tail, '\n');
    line = line ? line + 1 : tail;
    return xstrdup(*line ? line : "starting");
}

// Join the errors that it printed. New string.
static char *errors_of(const struct prepare *p, int status, int signal)
{
    char *tail auto_free = log_tail(p);
    struct buf found auto_buf = BUF_INIT;
    char *rest = tail;
    for (char *line; (line = strsep(&rest, "\n"));)
        if (str_starts(line, ERROR_LEAD))
            buf_printf(&found, "%s%s", found.len ? "; " : "", line + strlen(ERROR_LEAD));
    if (found.len)
        return buf_take(&found);
    return str_printf("cubby setup ended with %s %d; see %s/" LOG_NAME,
                      signal ? "signal" : "status", signal ? signal : status, p->home);
}

// ---- the process

static void on_child_closed(uv_handle_t *handle)
{
    free(container_of((uv_process_t *)handle, struct prepare_child, process));
}

static void end(struct prepare *p, enum phase phase, char *why)
{
    struct prepare_waiter *w;
    free(p->why);
    p->why = why;
    p->is_told = false;
    set_phase(p, phase);
    while ((w = LIST_FIRST(&p->waiters))) {
        prepare_forget(w);
        w->on_over(w);
    }
}

static void on_ended(uv_process_t *process, int64_t status, int signal)
{
    struct prepare_child *child = container_of(process, struct prepare_child, process);
    struct prepare *p = child->prepare;
    uv_close((uv_handle_t *)process, on_child_closed);
    if (!p)
        return;
    if (status == 0 && signal == 0)
        end(p, PHASE_DONE, NULL);
    else
        end(p, PHASE_FAILED, errors_of(p, (int)status, signal));
}

static int spawn(struct context *cx, struct err *e)
{
    char *program auto_free = self_program(PROGRAM, e);
    if (!program)
        return -1;
    char name[] = PROGRAM, verb[] = "setup", option[] = "--prepare";
    char *args[] = {name, verb, option, NULL};
    uv_stdio_container_t stdio[] = {
        {.flags = UV_IGNORE}, {.flags = UV_IGNORE}, {.flags = UV_IGNORE}};
    const uv_process_options_t options = {
        .exit_cb = on_ended,
        .file = program,
        .args = args,
        .cwd = "/",
        .flags = UV_PROCESS_DETACHED,
        .stdio_count = (int)ARRAY_LEN(stdio),
        .stdio = stdio,
    };
    struct prepare_child *child = xcalloc(1, sizeof *child);
    child->prepare = cx->prepare;
    int rc = uv_spawn(cx->loop, &child->process, &options);
    if (rc < 0) {
        err_set(e, ERR_INTERNAL, "start %s: %s", program, uv_strerror(rc));
        uv_close((uv_handle_t *)&child->process, on_child_closed);
        return -1;
    }
    uv_unref((uv_handle_t *)&child->process); // the server's end does not wait for it
    cx->prepare_child = child;
    return 0;
}

// ---- the interface

void prepare_start(struct context *cx)
{
    struct err e = ERR_INIT;
    if (!cx->config->prepare || config_is_remote(cx->config) ||
        (cx->prepare && (cx->prepare->phase != PHASE_FAILED || !cx->prepare->is_told)))
        return;
    if (!cx->prepare) {
        cx->prepare = xcalloc(1, sizeof *cx->prepare);
        cx->prepare->home = home_open(&e);
        LIST_INIT(&cx->prepare->waiters);
    } else {
        set_phase(cx->prepare, PHASE_RUNS);
    }
    if (err_is(&e) || spawn(cx, &e) < 0)
        end(cx->prepare, PHASE_FAILED, xstrdup(e.msg));
}

bool prepare_is_done(const struct context *cx)
{
    return !cx->prepare || cx->prepare->phase == PHASE_DONE;
}

bool prepare_runs(const struct context *cx)
{
    return cx->prepare && cx->prepare->phase == PHASE_RUNS;
}

void prepare_wait(struct context *cx, struct prepare_waiter *w)
{
    assert(prepare_runs(cx));
    LIST_INSERT_HEAD(&cx->prepare->waiters, w, next);
}

void prepare_forget(struct prepare_waiter *w)
{
    LIST_REMOVE(w, next);
}

char *prepare_take_failure(struct context *cx)
{
    struct prepare *p = cx->prepare;
    if (!p || p->phase != PHASE_FAILED || p->is_told)
        return NULL;
    p->is_told = true;
    return xstrdup(p->why);
}

void prepare_close(struct context *cx)
{
    struct prepare *p = cx->prepare;
    if (!p)
        return;
    if (p->phase == PHASE_RUNS) {
        cx->prepare_child->prepare = NULL;
        uv_close((uv_handle_t *)&cx->prepare_child->process, on_child_closed);
    }
    cx->prepare = NULL;
    free(p->why);
    free(p->home);
    free(p);
}
