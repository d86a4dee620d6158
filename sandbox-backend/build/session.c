// SPDX-License-Identifier: Apache-2.0
// The daemon and the sandboxes of a build.
#include "sandbox-backend/build/session.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/client/client.h"
#include "sandbox-backend/drivers/host/tool.h"

#define TICK_MS        100
#define METADATA       "cubby.build"
#define SCRIPT_OUT_MAX 65536
#define SIGNAL_STATUS  128

// ---- open and close
static void on_tick(uv_timer_t *timer)
{
    struct session *s = timer->data;
    if (s->tick)
        s->tick(s->ctx);
    if (tool_interrupted() && !s->deaf && s->op && !s->canceled) {
        s->canceled = true;
        client_cancel(s->op);
    }
}

int session_open(struct session *s, const char *home, void (*tick)(void *ctx), void *ctx,
                 struct err *e)
{
    char *program auto_free = self_program("cubbyd", e);
    const struct client_opts opts = {.home = home, .daemon_path = program};
    *s = (struct session){.tick = tick, .ctx = ctx};
    if (!program || client_opts_check(&opts, e) < 0)
        return -1;
    uv_loop_init(&s->loop);
    uv_timer_init(&s->loop, &s->timer);
    s->timer.data = s;
    uv_timer_start(&s->timer, on_tick, TICK_MS, TICK_MS);
    s->client = client_new(&s->loop, &opts);
    return 0;
}

static void on_closed(void *ctx)
{
    ((struct session *)ctx)->closed = true;
}

void session_close(struct session *s)
{
    if (!s->client)
        return;
    client_close(s->client, on_closed, s);
    while (!s->closed)
        uv_run(&s->loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&s->timer, NULL);
    while (uv_run(&s->loop, UV_RUN_DEFAULT))
        ;
    uv_loop_close(&s->loop);
    s->client = NULL;
}

// ---- a request that blocks
struct request {
    struct session *session; // borrowed
    bool done;
    json_t *info; // owned
    struct err *e;
};

static void on_done(const struct err *e, void *ctx)
{
    struct request *r = ctx;
    r->done = true;
    if (e)
        *r->e = *e;
    uv_stop(&r->session->loop);
}

static void on_json(const json_t *info, const struct err *e, void *ctx)
{
    ((struct request *)ctx)->info = info ? json_deep_copy(info) : NULL;
    on_done(e, ctx);
}

// Wait for the end of the request. New reference, or NULL with the error.
static json_t *await(struct request *r, struct client_op *op)
{
    struct session *s = r->session;
    s->op = op;
    s->canceled = false;
    while (!r->done)
        uv_run(&s->loop, UV_RUN_DEFAULT);
    s->op = NULL;
    if (s->canceled) {
        *r->e = ERR_INIT;
        err_set(r->e, ERR_CANCELED, "interrupted");
    }
    return r->info;
}

static int await_done(struct request *r, struct client_op *op)
{
    json_decref(await(r, op));
    return err_is(r->e) ? -1 : 0;
}

// A signal between two requests must not start the next one.
static int check_signals(const struct session *s, struct err *e)
{
    return tool_interrupted() && !s->deaf ? err_set(e, ERR_CANCELED, "interrupted") : 0;
}

// ---- sandboxes
char *session_create(struct session *s, const struct session_sandbox *want, struct err *e)
{
    json_t *metadata = json_pack("{s:s}", METADATA, want->name);
    const struct sandbox_opts opts = {.template = want->template,
                                      .timeout_s = want->timeout_s,
                                      .metadata = metadata,
                                      .network = (json_t *)(uintptr_t)want->policy,
                                      .cpus = want->cpus,
                                      .memory_mb = want->memory_mb,
                                      .tier = "microvm"};
    struct request r = {.session = s, .e = e};
    json_t *info =
        check_signals(s, e) < 0 ? NULL : await(&r, client_create(s->client, &opts, on_json, &r));
    const char *id = json_string_value(json_object_get(info, "sandboxID"));
    char *copy = id ? xstrdup(id) : NULL;
    json_decref(info);
    json_decref(metadata);
    if (err_is(e) && e->code == ERR_CANCELED && copy) // it was made all the same
        session_kill(s, copy, NULL);
    if (!copy)
        err_set(e, ERR_INTERNAL, "the daemon's answer has no id of a sandbox");
    return err_is(e) ? (free(copy), NULL) : copy;
}

int session_kill(struct session *s, const char *id, struct err *e)
{
    struct err ignored = ERR_INIT;
    struct request r = {.session = s, .e = e ? e : &ignored};
    bool deaf = s->deaf;
    s->deaf = true; // a sandbox is removed even after a signal
    int result = await_done(&r, client_kill(s->client, id, on_done, &r));
    s->deaf = deaf;
    return result;
}

int session_sweep(struct session *s, const char *name, struct err *e)
{
    json_t *metadata = json_pack("{s:s}", METADATA, name);
    struct request r = {.session = s, .e = e};
    json_t *list = await(&r, client_list(s->client, metadata, on_json, &r));
    size_t i;
    json_t *one;
    json_array_foreach (list, i, one) {
        const char *id = json_string_value(json_object_get(one, "sandboxID"));
        if (id)
            session_kill(s, id, NULL);
    }
    json_decref(list);
    json_decref(metadata);
    return err_is(e) ? -1 : 0;
}

int session_set_timeout(struct session *s, const char *id, int64_t seconds, struct err *e)
{
    struct request r = {.session = s, .e = e};
    return check_signals(s, e) < 0
               ? -1
               : await_done(&r, client_set_timeout(s->client, id, seconds, on_done, &r));
}

// ---- layers
int session_has_layer(struct session *s, const char *key, struct err *e)
{
    char *name auto_free = str_printf("layer:%s", key);
    struct err why = ERR_INIT;
    struct request r = {.session = s, .e = &why};
    if (check_signals(s, e) < 0)
        return -1;
    json_decref(await(&r, client_template(s->client, name, on_json, &r)));
    if (!err_is(&why))
        return 1;
    // A layer of an older build of its template cannot be used either.
    if (why.code == ERR_NOT_FOUND || why.code == ERR_PRECONDITION || why.code == ERR_INVALID)
        return 0;
    *e = why;
    return -1;
}

char *session_save_layer(struct session *s, const char *id, const char *key, struct err *e)
{
    char *name auto_free = str_printf("layer:%s", key);
    struct request r = {.session = s, .e = e};
    if (check_signals(s, e) < 0)
        return NULL;
    json_t *info = await(&r, client_snapshot(s->client, id, name, on_json, &r));
    const char *made = json_string_value(json_object_get(info, "snapshotID"));
    char *copy = made && !err_is(e) ? xstrdup(made) : NULL;
    json_decref(info);
    if (!copy)
        err_set(e, ERR_INTERNAL, "the daemon's answer has no id of a snapshot");
    return copy;
}

// ---- commands
struct running {
    struct request request;
    const struct session_command *command;
    int status;
    bool timed_out;
};

static void on_stdout(const char *data, size_t len, void *ctx)
{
    const struct session_command *c = ((struct running *)ctx)->command;
    if (c->on_output)
        c->on_output(false, data, len, c->ctx);
}

static void on_stderr(const char *data, size_t len, void *ctx)
{
    const struct session_command *c = ((struct running *)ctx)->command;
    if (c->on_output)
        c->on_output(true, data, len, c->ctx);
}

static void on_end(const struct command_result *result, const struct err *e, void *ctx)
{
    struct running *r = ctx;
    r->timed_out = result->end == COMMAND_TIMED_OUT;
    r->status = result->end == COMMAND_EXITED ? result->exit_code : SIGNAL_STATUS + SIGKILL;
    on_done(e, &r->request);
}

int session_run(struct session *s, const char *id, const struct session_command *command,
                int *status, struct err *e)
{
    static const struct command_events EVENTS = {
        .on_stdout = on_stdout, .on_stderr = on_stderr, .on_end = on_end};
    const struct command_opts opts = {.cmd = command->argv[0],
                                      .args = command->argv + 1,
                                      .envs = (json_t *)(uintptr_t)command->env,
                                      .cwd = command->directory,
                                      .user = command->user,
                                      .timeout_ms = command->timeout_ms};
    struct running r = {.request = {.session = s, .e = e}, .command = command};
    if (check_signals(s, e) < 0 ||
        await_done(&r.request, client_command(s->client, id, &opts, &EVENTS, &r)) < 0)
        return -1;
    *status = r.status;
    return r.timed_out ? err_set(e, ERR_TIMEOUT, "it ran longer than %lld s and was killed",
                                 (long long)(command->timeout_ms / 1000))
                       : 0;
}

static void on_script_output(bool is_stderr, const char *data, size_t len, void *ctx)
{
    (void)is_stderr;
    if (!buf_try_add(ctx, data, len, SCRIPT_OUT_MAX))
        buf_clear(ctx); // the last lines are the ones that say what failed
}

// Return the last line of an output, without its newline. New string.
static char *last_line(const struct buf *out)
{
    size_t end = out->len;
    while (end && out->data[end - 1] == '\n')
        end--;
    size_t start = end;
    while (start && out->data[start - 1] != '\n')
        start--;
    return end ? xstrndup(out->data + start, end - start) : xstrdup("");
}

int session_script(struct session *s, const char *id, const char *script, int64_t timeout_ms,
                   struct buf *out, struct err *e)
{
    struct buf own auto_buf = BUF_INIT;
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};
    const struct session_command command = {.argv = argv,
                                            .user = "root",
                                            .directory = "/",
                                            .timeout_ms = timeout_ms,
                                            .on_output = on_script_output,
                                            .ctx = out ? out : &own};
    int status = 0;
    if (session_run(s, id, &command, &status, e) < 0)
        return -1;
    char *line auto_free = last_line(out ? out : &own);
    return status ? err_set(e, ERR_INVALID, "%.250s", *line ? line : "the sandbox's shell failed")
                  : 0;
}

// ---- files
static void on_file(const char *path, int64_t bytes, const struct err *e, void *ctx)
{
    (void)path;
    (void)bytes;
    on_done(e, ctx);
}

int session_upload(struct session *s, const char *id, int fd, const char *path, struct err *e)
{
    struct request r = {.session = s, .e = e};
    return await_done(&r, client_upload(s->client, id, fd, path, "root", on_file, &r));
}

int session_download(struct session *s, const char *id, const char *path, int fd, int64_t max,
                     struct err *e)
{
    struct request r = {.session = s, .e = e};
    return await_done(&r, client_download(s->client, id, path, fd, max, "root", on_file, &r));
}
