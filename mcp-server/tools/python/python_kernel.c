// SPDX-License-Identifier: Apache-2.0
// Code in the sandbox's kernel (port 49999, the protocol of the code interpreter). Contexts of
// languages other than Python have names of their own: "a-bash" is the context "a" of bash.
//
// Theory of operation. The kernel runs one piece of code at a time in a context, and answers with
// lines as they happen, each a JSON object. The request that starts a run is sent once and never
// repeated. After an error behind that point the fate of the run is unknown.
//
// Steps: 1. restart the context, if asked for; 2. run the code until its last line; if the context
// does not exist, 3. create it and repeat step 2, which has run nothing; 4. save long
// output in files (run.c) and make the result.
//
// The timeout starts with step 1. At its end the kernel is asked to interrupt the run, which then
// ends as by Ctrl+C, with all of its output; the context keeps its variables. If the run does not
// end within STOP_MS, the connection is closed, and the kernel ends the run by force. A run that
// has not begun is left at once, because an interrupt could hit another run. Behind a proxy that
// holds the lines back nobody knows whether the run has begun; it is taken for one that has.
#include "mcp-server/tools/python/python.h"

#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"
#include "sandbox-backend/net/deadline.h"

#define KERNEL_PORT     49999
#define DEFAULT_CONTEXT "default"
#define STOP_MS         10000

struct kernel_run {
    struct run *run;
    void (*on_no_kernel)(struct tool_call *c);
    const char *language; // borrowed
    char *context;        // owned; its name in the kernel
    bool is_default;      // the context that the kernel has for each language
    bool is_made;         // step 3 was taken
    struct python_told told;
    bool has_begun;         // a line of it has come
    bool is_told;           // its last line has come
    bool has_ended;         // its answer has ended, with `status` and `e`
    bool is_stopping;       // its time is over
    bool was_left;          // and it did not end
    struct client_op *stop; // borrowed: the request to interrupt
    struct deadline time;
    void (*after)(struct kernel_run *k); // once the deadline is closed
    int status;
    struct err e; // ERR_NONE: the answer came whole
};

static void restart(struct kernel_run *k);
static void execute(struct kernel_run *k);
static void make_context(struct kernel_run *k);
static void save(struct kernel_run *k);

bool python_context_is_valid(const char *name)
{
    static const char LETTERS[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    size_t len = strlen(name);
    return len > 0 && len <= PYTHON_CONTEXT_MAX && strspn(name, LETTERS) == len;
}

static struct tool_call *call_of(const struct kernel_run *k)
{
    return k->run->call;
}

static void on_free(struct run *r)
{
    struct kernel_run *k = r->ctx;
    python_told_fini(&k->told);
    free(k->context);
    free(k);
}

// ---- the ends, each behind the deadline's close

static void on_time_closed(struct deadline *d)
{
    struct kernel_run *k = container_of(d, struct kernel_run, time);
    k->after(k);
}

static void leave(struct kernel_run *k, void (*after)(struct kernel_run *k), const struct err *e)
{
    k->after = after;
    if (e)
        k->e = *e;
    deadline_close(&k->time, on_time_closed);
}

static void fail(struct kernel_run *k)
{
    struct err e = k->e;
    run_fail(k->run, "run the code", &e);
}

static void fail_lost(struct kernel_run *k)
{
    struct err e = k->e;
    run_fail_lost(k->run, &e);
}

static void give_up(struct kernel_run *k)
{
    struct tool_call *c = call_of(k);
    void (*on_no_kernel)(struct tool_call *) = k->on_no_kernel;
    run_free(k->run);
    on_no_kernel(c);
}

static bool is_no_kernel(const struct err *e)
{
    return e && e->code == ERR_REFUSED;
}

// Return whether the connection was closed because of the timeout.
static bool is_left(const struct kernel_run *k, const struct err *e)
{
    return k->was_left && e->code == ERR_CANCELED && !call_of(k)->cancelled;
}

// Nothing has run.
static void end_early(struct kernel_run *k, const struct err *e)
{
    leave(k, is_left(k, e) ? save : is_no_kernel(e) ? give_up : fail, e);
}

// ---- requests

static struct client_op *ask(struct kernel_run *k, const char *path, const json_t *body,
                             const struct stream_events *events)
{
    struct tool_call *c = call_of(k);
    return client_stream(c->context->client, c->id, KERNEL_PORT, "POST", path, body, events, k);
}

static struct client_op *ask_context(struct kernel_run *k, const char *what,
                                     const struct stream_events *events)
{
    char *path auto_free = str_printf("/contexts/%s/%s", k->context, what);
    return ask(k, path, NULL, events);
}

static void on_no_line(const char *line, size_t len, void *ctx)
{
    (void)line, (void)len, (void)ctx;
}

// ---- 1. a clean context

static void on_restarted(int status, const struct err *e, void *ctx)
{
    struct kernel_run *k = ctx;
    call_of(k)->op = NULL;
    if (e && status != 404) // one that is not there is clean
        end_early(k, e);
    else
        execute(k);
}

static void restart(struct kernel_run *k)
{
    static const struct stream_events EVENTS = {.on_line = on_no_line, .on_end = on_restarted};
    call_of(k)->op = ask_context(k, "restart", &EVENTS);
}

// ---- 2. the run: its time

static void conclude(struct kernel_run *k);

// The kernel answers but does not interrupt. If the sandbox or the connection is gone, the answer
// of the run ends too and says why; STOP_MS limits the wait.
static bool is_refusal(const struct err *e, int status)
{
    return status >= 300 && e->code != ERR_GONE;
}

static void on_stop_answered(int status, const struct err *e, void *ctx)
{
    struct kernel_run *k = ctx;
    k->stop = NULL;
    if (e)
        log_debug("python.interrupt", "status=%d error=%s", status, e->msg);
    if (k->has_ended) {
        conclude(k);
    } else if (e && is_refusal(e, status) && call_of(k)->op) { // no other way to stop it
        k->was_left = true;
        client_cancel(call_of(k)->op);
    }
}

static void on_time_over(struct deadline *d)
{
    static const struct stream_events EVENTS = {.on_line = on_no_line, .on_end = on_stop_answered};
    struct kernel_run *k = container_of(d, struct kernel_run, time);
    if (k->is_stopping || !k->has_begun) {
        k->is_stopping = k->was_left = true;
        if (call_of(k)->op)
            client_cancel(call_of(k)->op);
        return;
    }
    k->is_stopping = true;
    k->stop = ask_context(k, "interrupt", &EVENTS);
    deadline_arm(&k->time, STOP_MS);
}

// ---- 2. the run: its lines

static void on_line(const char *line, size_t len, void *ctx)
{
    struct kernel_run *k = ctx;
    struct err e = ERR_INIT;
    json_t *o = json_parse_nul(line, len, &e);
    const json_t *text = json_object_get(o, "text");
    const char *type = json_string_value(json_object_get(o, "type"));
    k->has_begun |= type && !str_eq(type, "keepalive");
    if (!type)
        log_warn("python.line", "error=%s", e.msg);
    else if (str_eq(type, "stdout") && json_is_string(text))
        run_add_stdout(k->run, json_string_value(text), json_string_length(text));
    else if (str_eq(type, "stderr") && json_is_string(text))
        run_add_stderr(k->run, json_string_value(text), json_string_length(text));
    else if (str_eq(type, "result"))
        python_told_result(&k->told, call_of(k), o);
    else if (str_eq(type, "error"))
        python_told_error(&k->told, o);
    else if (str_eq(type, "end_of_execution"))
        k->is_told = true;
    json_decref(o);
}

static void on_held(void *ctx)
{
    struct kernel_run *k = ctx;
    k->has_begun = true;
}

// A server that refuses has not begun the run. After a broken connection its fate is unknown.
static bool may_have_run(const struct err *e, int status)
{
    return status < 300 && e->code != ERR_CANCELED && e->code != ERR_GONE;
}

static void conclude(struct kernel_run *k)
{
    const struct err *e = &k->e;
    if (e->code == ERR_NONE && !k->is_told)
        err_set(
            &k->e, ERR_UNAVAILABLE,
            "the Python kernel's answer broke off, so the code may have run only in part: check "
            "its effects before you run it again");
    if (e->code == ERR_NONE || is_left(k, e))
        leave(k, save, NULL);
    else if (k->status == 404 && !k->is_default && !k->is_made && !k->is_stopping)
        make_context(k);
    else if (!is_no_kernel(e) && may_have_run(e, k->status))
        leave(k, fail_lost, NULL);
    else
        end_early(k, e);
}

static void on_end(int status, const struct err *e, void *ctx)
{
    struct kernel_run *k = ctx;
    call_of(k)->op = NULL;
    k->has_ended = true;
    k->status = status;
    k->e = e ? *e : (struct err)ERR_INIT;
    if (k->stop) // its answer finds the end
        client_cancel(k->stop);
    else
        conclude(k);
}

static void execute(struct kernel_run *k)
{
    static const struct stream_events EVENTS = {
        .on_line = on_line, .on_held = on_held, .on_end = on_end};
    const char *code = tool_call_string(call_of(k), "code_block");
    json_t *body = json_pack("{s:s, s:s}", "code", code, "figures_dir", PYTHON_FIGURES_DIR);
    json_object_set_new(body, "quotes", json_true());
    // Every server has a default context for each language, under a name of its own.
    if (!k->is_default)
        json_object_set_new(body, "context_id", json_string(k->context));
    else if (!str_eq(k->language, PYTHON_LANGUAGE))
        json_object_set_new(body, "language", json_string(k->language));
    k->has_ended = false;
    call_of(k)->op = ask(k, "/execute", body, &EVENTS);
    json_decref(body);
}

// ---- 3. the context

// A server that issues its own names has created a context: use that name from now on.
static void on_made_line(const char *line, size_t len, void *ctx)
{
    struct kernel_run *k = ctx;
    struct err e = ERR_INIT;
    json_t *o = json_parse(line, len, &e);
    const char *id = json_string_value(json_object_get(o, "id"));
    if (id && python_context_is_valid(id)) {
        free(k->context);
        k->context = xstrdup(id);
    }
    json_decref(o);
}

static void on_made(int status, const struct err *e, void *ctx)
{
    (void)status;
    struct kernel_run *k = ctx;
    call_of(k)->op = NULL;
    if (e)
        end_early(k, e);
    else
        execute(k);
}

static void make_context(struct kernel_run *k)
{
    static const struct stream_events EVENTS = {.on_line = on_made_line, .on_end = on_made};
    json_t *body = json_pack("{s:s, s:s}", "language", k->language, "id", k->context);
    k->is_made = true;
    call_of(k)->op = ask(k, "/contexts", body, &EVENTS);
    json_decref(body);
}

// ---- 4. the result

static void on_done(struct run *r)
{
    struct kernel_run *k = r->ctx;
    struct tool_call *c = r->call;
    json_t *structured = run_structured(r);
    const char *asked = tool_call_string(c, "context");
    bool is_python = str_eq(k->language, PYTHON_LANGUAGE);
    json_object_set_new(structured, "context",
                        json_string(is_python ? k->context
                                    : asked   ? asked
                                              : DEFAULT_CONTEXT));
    python_told_add(&k->told, structured);
    run_free(r);
    tool_call_finish(c, structured);
}

static void save(struct kernel_run *k)
{
    struct run *r = k->run;
    r->timed_out = k->is_stopping;
    r->exit_code = r->timed_out ? -1 : k->told.error ? 1 : 0;
    if (k->was_left)
        run_end(r, k->has_begun ? "killed: it did not respond to an interrupt" : PYTHON_NOT_RUN);
    else
        run_end(r, r->timed_out ? "interrupted" : k->told.error ? "error" : "ok");
}

void python_kernel_start(struct tool_call *c, void (*on_no_kernel)(struct tool_call *c))
{
    struct client *client = tool_call_client(c, run_timeout_ms(c) / 1000 + RUN_SLIDE_MARGIN_S);
    if (!client)
        return;
    const char *context = tool_call_string(c, "context");
    const char *language = tool_call_string(c, "language");
    struct kernel_run *k = xcalloc(1, sizeof *k);
    k->run = run_new(c);
    k->run->ctx = k;
    k->run->on_free = on_free;
    k->run->on_done = on_done;
    k->on_no_kernel = on_no_kernel;
    k->language = language ? language : PYTHON_LANGUAGE;
    context = context ? context : DEFAULT_CONTEXT;
    k->is_default = str_eq(context, DEFAULT_CONTEXT);
    k->context = str_eq(k->language, PYTHON_LANGUAGE) ? xstrdup(context)
                                                      : str_printf("%s-%s", context, k->language);
    python_told_init(&k->told, (size_t)c->context->config->output_bytes);
    deadline_init(&k->time, c->context->loop, on_time_over);
    deadline_arm(&k->time, (uint64_t)run_timeout_ms(c));
    if (json_is_true(json_object_get(c->args, "restart")))
        restart(k);
    else
        execute(k);
}
