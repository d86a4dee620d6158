// SPDX-License-Identifier: Apache-2.0
#include "sandbox-backend/cli/copy/remote.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/client/client.h"

#define TICK_MS        200
#define WORDS_MAX      16   // of a script: its shell's and its own
#define COMPLAINT_MAX  1024 // of stderr
#define NOT_EXECUTABLE 126
#define NOT_THERE      127

// ---- open and close
static void on_signal(uv_signal_t *handle, int number)
{
    struct remote *r = handle->data;
    r->caught = number;
    if (r->op && !r->cleans)
        client_cancel(r->op);
}

static void on_tick(uv_timer_t *timer)
{
    struct remote *r = timer->data;
    if (r->tick && r->op)
        r->tick(r->ctx);
}

void remote_open(struct remote *r, struct connection *c, const char *id, const char *user)
{
    static const int NUMBERS[REMOTE_SIGNALS] = {SIGINT, SIGTERM, SIGHUP};
    *r = (struct remote){.c = c, .id = id, .user = user};
    uv_timer_init(&c->loop, &r->timer);
    r->timer.data = r;
    uv_timer_start(&r->timer, on_tick, TICK_MS, TICK_MS);
    for (size_t i = 0; i < REMOTE_SIGNALS; i++) {
        uv_signal_init(&c->loop, &r->signals[i]);
        r->signals[i].data = r;
        uv_signal_start(&r->signals[i], on_signal, NUMBERS[i]);
    }
    r->handles_open = REMOTE_SIGNALS + 1;
}

static void on_closed(uv_handle_t *handle)
{
    struct remote *r = handle->data;
    r->handles_open--;
}

void remote_forget(struct remote *r)
{
    free(r->dir);
    r->dir = NULL;
}

void remote_clean(struct remote *r)
{
    const char *args[] = {r->dir, NULL};
    bool cleans = r->cleans;
    r->cleans = true;
    if (r->dir)
        remote_script(r, "rm -rf -- \"$1\"", args, NULL, 0, NULL);
    r->cleans = cleans;
    remote_forget(r);
}

void remote_close(struct remote *r)
{
    r->tick = NULL;
    remote_clean(r);
    uv_close((uv_handle_t *)&r->timer, on_closed);
    for (size_t i = 0; i < REMOTE_SIGNALS; i++)
        uv_close((uv_handle_t *)&r->signals[i], on_closed);
    while (r->handles_open)
        uv_run(&r->c->loop, UV_RUN_ONCE);
}

// ---- a request that blocks
struct request {
    struct remote *remote; // borrowed
    bool done;
    json_t *info; // owned
    struct err err;
};

// A signal may come in the same turn of the loop, when the operation is gone.
static void end_request(struct request *q, const struct err *e)
{
    q->done = true;
    q->remote->op = NULL;
    if (e)
        q->err = *e;
    uv_stop(&q->remote->c->loop);
}

static int check_signals(const struct remote *r, struct err *e)
{
    return r->caught && !r->cleans ? err_set(e, ERR_CANCELED, "interrupted") : 0;
}

static int await(struct request *q, struct client_op *op, struct err *e)
{
    struct remote *r = q->remote;
    r->op = op;
    while (!q->done)
        uv_run(&r->c->loop, UV_RUN_DEFAULT);
    r->op = NULL;
    if (check_signals(r, e) < 0)
        return -1;
    return err_is(&q->err) ? err_set(e, q->err.code, "%s", q->err.msg) : 0;
}

// ---- programs of the shell
struct script {
    struct request request;
    struct buf *out; // borrowed; may be NULL
    size_t max;
    struct buf complaint; // the beginning of stderr
    int status;
    bool is_too_long;
};

static void on_stdout(const char *data, size_t len, void *ctx)
{
    struct script *s = ctx;
    if (!s->out || s->is_too_long || buf_try_add(s->out, data, len, s->max))
        return;
    s->is_too_long = true;
    if (s->request.remote->op)
        client_cancel(s->request.remote->op);
}

static void on_stderr(const char *data, size_t len, void *ctx)
{
    struct script *s = ctx;
    size_t room = COMPLAINT_MAX - s->complaint.len;
    buf_add(&s->complaint, data, len < room ? len : room);
}

static void on_end(const struct command_result *result, const struct err *e, void *ctx)
{
    struct script *s = ctx;
    s->status = result->end == COMMAND_EXITED ? result->exit_code : -1;
    end_request(&s->request, e);
}

// Return the first line of stderr: later ones, such as tar's last, say less. Borrowed.
static const char *first_line(struct script *s)
{
    if (!s->complaint.len)
        return "a command of the copy failed in the sandbox";
    s->complaint.data[strcspn(buf_str(&s->complaint), "\n")] = '\0';
    return s->complaint.data;
}

static int judge_script(struct script *s, struct err *e)
{
    bool is_missing = s->status == NOT_THERE || s->status == NOT_EXECUTABLE;
    if (s->is_too_long)
        return err_set(e, ERR_LIMIT, "the directory has too many entries to copy at once");
    if (s->status == 0)
        return 0;
    if (is_missing && !s->complaint.len)
        return err_set(e, ERR_NOT_FOUND, "the sandbox has no /bin/sh");
    return err_set(e, ERR_INVALID, "%.280s", first_line(s));
}

int remote_script(struct remote *r, const char *script, const char *const *args, struct buf *out,
                  size_t max, struct err *e)
{
    static const struct command_events EVENTS = {
        .on_stdout = on_stdout, .on_stderr = on_stderr, .on_end = on_end};
    const char *words[WORDS_MAX] = {"-c", script, "sh"};
    struct script s = {.request = {.remote = r}, .out = out, .max = max};
    for (size_t i = 0; args && args[i] && i + 4 < ARRAY_LEN(words); i++)
        words[i + 3] = args[i];
    const struct command_opts opts = {
        .cmd = "/bin/sh", .args = words, .user = r->user, .cwd = "/"}; // some users have no home
    if (check_signals(r, e) < 0)
        return -1;
    struct client_op *op = client_command(r->c->client, r->id, &opts, &EVENTS, &s);
    int result = await(&s.request, op, s.is_too_long ? NULL : e);
    if (result == 0 || s.is_too_long)
        result = judge_script(&s, e);
    buf_fini(&s.complaint);
    return result;
}

// ---- files
static void on_file(const char *path, int64_t bytes, const struct err *e, void *ctx)
{
    (void)path;
    (void)bytes;
    end_request(ctx, e);
}

int remote_upload(struct remote *r, int fd, const char *path, struct err *e)
{
    struct request q = {.remote = r};
    if (check_signals(r, e) < 0)
        return -1;
    int own = dup(fd);
    if (own < 0)
        return err_sys(e, errno, "upload %.200s", path);
    return await(&q, client_upload(r->c->client, r->id, own, path, r->user, on_file, &q), e);
}

int remote_upload_bytes(struct remote *r, const struct buf *data, const char *path, struct err *e)
{
    struct request q = {.remote = r};
    if (check_signals(r, e) < 0)
        return -1;
    return await(&q,
                 client_upload_bytes(r->c->client, r->id, buf_str(data), data->len, path, r->user,
                                     on_file, &q),
                 e);
}

int remote_download(struct remote *r, const char *path, int fd, int64_t max, struct err *e)
{
    struct request q = {.remote = r};
    if (check_signals(r, e) < 0)
        return -1;
    int own = dup(fd);
    if (own < 0)
        return err_sys(e, errno, "download %.200s", path);
    return await(&q, client_download(r->c->client, r->id, path, own, max, r->user, on_file, &q), e);
}

// ---- what is at a path
static void on_json(const json_t *info, const struct err *e, void *ctx)
{
    struct request *q = ctx;
    q->info = info ? json_deep_copy(info) : NULL;
    end_request(q, e);
}

static char type_of(const json_t *entry)
{
    const char *type = json_string_value(json_object_get(entry, "type"));
    if (str_eq(type, "FILE_TYPE_FILE"))
        return 'f';
    return str_eq(type, "FILE_TYPE_DIRECTORY") ? 'd' : 'o';
}

// E2B's protocol sends an int64 as a string.
static int64_t size_of(const json_t *entry)
{
    const json_t *size = json_object_get(entry, "size");
    int64_t n = json_integer_value(size);
    if (json_is_string(size) && !str_to_int(json_string_value(size), 0, INT64_MAX, &n))
        n = 0;
    return n;
}

// "2026-11-24T03:00:01.123456Z"
static int64_t seconds_of(const json_t *entry)
{
    const char *text = json_string_value(json_object_get(entry, "modifiedTime"));
    struct tm tm = {0};
    return text && strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) ? (int64_t)timegm(&tm) : 0;
}

int remote_stat(struct remote *r, const char *path, struct remote_stat *out, struct err *e)
{
    struct request q = {.remote = r};
    struct err why = ERR_INIT;
    *out = (struct remote_stat){0};
    if (check_signals(r, e) < 0)
        return -1;
    json_t *request = json_pack("{s:s}", "path", path);
    if (!request)
        return err_set(e, ERR_INVALID, "a path in the sandbox must be UTF-8");
    int result = await(&q,
                       client_rpc(r->c->client, r->id, "filesystem.Filesystem/Stat", request,
                                  r->user, on_json, &q),
                       &why);
    json_decref(request);
    const json_t *entry = json_object_get(q.info, "entry");
    const char *found = json_string_value(json_object_get(entry, "path"));
    if (found)
        *out = (struct remote_stat){
            .type = type_of(entry),
            .path = xstrdup(found),
            .size = size_of(entry),
            .seconds = seconds_of(entry),
            .mode = (unsigned)json_integer_value(json_object_get(entry, "mode")) & 07777,
        };
    json_decref(q.info);
    if (found || (result < 0 && why.code == ERR_NOT_FOUND))
        return 0;
    if (result < 0)
        return err_set(e, why.code, "%s", why.msg);
    return err_set(e, ERR_INTERNAL, "envd sent an invalid answer about %.200s", path);
}

// ---- temporary files
const char *remote_dir(struct remote *r, struct err *e)
{
    static const char SCRIPT[] =
        "for tool in find tar xargs mktemp; do command -v $tool >/dev/null || {\n"
        "  echo \"the sandbox has no $tool: install it, or copy single files\" >&2; exit 1; }\n"
        "done\n"
        "mktemp -d \"${TMPDIR:-/tmp}/.cubby-XXXXXX\"";
    struct buf out auto_buf = BUF_INIT;
    if (r->dir)
        return r->dir;
    if (remote_script(r, SCRIPT, NULL, &out, PATH_MAX, e) < 0) {
        if (e->code == ERR_NOT_FOUND)
            err_wrap(e, "a directory cannot be copied");
        return NULL;
    }
    while (out.len && out.data[out.len - 1] == '\n')
        out.data[--out.len] = '\0';
    if (!out.len || out.data[0] != '/') {
        err_set(e, ERR_INTERNAL, "the sandbox made no directory for temporary files");
        return NULL;
    }
    r->dir = buf_take(&out);
    return r->dir;
}
