// SPDX-License-Identifier: Apache-2.0
// Named shells: one call. Steps: 1. the client's script; 2. if there is no such shell, its
// keeper, and step 1 again; 3. the result.
#include "mcp-server/tools/run/named_shell.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "mcp-server/tools/run/guest_script.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define ID_BYTES  8
#define KEY_BYTES 16
#define WORD_MAX  15
#define REST_MAX  ((size_t)4096) // behind the mark
#define GRACE_MS  20000          // beyond the call's time, for the interrupt and what follows it
#define START_MS  2000           // the same for the start of the keeper

// One stream of the client: output, the mark, and the rest of its line.
struct scan {
    struct buf held; // what may be the beginning of the mark; then the line behind it
    bool is_marked, has_ended;
};

struct named_shell {
    struct run *run;
    const char *name; // borrowed
    char *mark;       // owned
    char *before;     // owned: cd and export
    struct scan out, err;
    bool is_overrun;            // the line behind the mark is too long: the command forged it
    bool was_started, is_ready; // the keeper, by this call
    bool is_held;               // its word is held back, so it may not be ready yet
    char why[WORD_MAX + 1];     // "timeout", "gone", "late", "start" or "-"
    bool is_new, has_ended;
    json_t *names; // owned; NULL until the end
};

static void start_client(struct named_shell *s);
static void start_keeper(struct named_shell *s);
static void take_result(struct named_shell *s);

static void named_shell_free(struct run *r)
{
    struct named_shell *s = r->ctx;
    buf_fini(&s->out.held);
    buf_fini(&s->err.held);
    json_decref(s->names);
    free(s->mark);
    free(s->before);
    free(s);
}

static void fail(struct named_shell *s, const char *code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void fail(struct named_shell *s, const char *code, const char *fmt, ...)
{
    struct tool_call *c = s->run->call;
    va_list ap;
    va_start(ap, fmt);
    char *message auto_free = str_vprintf(fmt, ap);
    va_end(ap);
    run_free(s->run);
    tool_call_fail(c, code, "%s", message);
}

// ---- 1. the client

// Return how many bytes at the end of `b` may be the beginning of the mark.
static size_t overlap(const struct buf *b, const char *mark)
{
    size_t len = strlen(mark) - 1;
    len = len < b->len ? len : b->len;
    while (len > 0 && memcmp(b->data + b->len - len, mark, len) != 0)
        len--;
    return len;
}

static void scan_add(struct named_shell *s, struct scan *scan, const char *data, size_t len,
                     void (*add)(struct run *r, const char *data, size_t len))
{
    struct buf *held = &scan->held;
    if (scan->has_ended || s->is_overrun)
        return;
    buf_add(held, data, len);
    if (!scan->is_marked) {
        const char *mark = memmem(held->data, held->len, s->mark, strlen(s->mark));
        size_t pass = mark ? (size_t)(mark - held->data) : held->len - overlap(held, s->mark);
        if (pass > 0)
            add(s->run, held->data, pass);
        buf_consume(held, pass + (mark ? strlen(s->mark) : 0));
        scan->is_marked = mark != NULL;
    }
    scan->has_ended = scan->is_marked && held->len && memchr(held->data, '\n', held->len);
    s->is_overrun = scan->is_marked && !scan->has_ended && held->len > REST_MAX;
    if (s->is_overrun)
        client_cancel(s->run->call->op); // the keeper then interrupts the command
    else if (s->out.has_ended && s->err.has_ended)
        client_leave(s->run->call->op); // background jobs may hold the client
}

static void on_stdout(const char *data, size_t len, void *ctx)
{
    struct named_shell *s = ctx;
    scan_add(s, &s->out, data, len, run_add_stdout);
}

static void on_stderr(const char *data, size_t len, void *ctx)
{
    struct named_shell *s = ctx;
    scan_add(s, &s->err, data, len, run_add_stderr);
}

static void fail_without_code(struct named_shell *s)
{
    fail(s, "failed",
         "session '%s' returned no exit code, so the command may have run in part. Check its "
         "effects before you run it again",
         s->name);
}

static void fail_without_files(struct named_shell *s)
{
    struct buf said auto_buf = BUF_INIT;
    int len;
    excerpt_get(&s->run->err.shown, &said);
    const char *why = guest_script_complaint(&said, &len);
    fail(s, "failed",
         "the shell of session '%s' cannot be started, because its files cannot be made (%.*s)",
         s->name, len, why);
}

static void fail_at_start(struct named_shell *s)
{
    fail(s, "failed",
         "the shell of session '%s' ended with exit code %d before the command began, so the "
         "command was not run. Look at what a login shell reads, such as ~/.bash_profile",
         s->name, s->run->exit_code);
}

static void fail_by_exit(struct named_shell *s, int exit_code)
{
    switch (exit_code) {
    case SHELL_NO_FILES:
        fail_without_files(s);
        break;
    case GUEST_SCRIPT_NO_PROGRAM:
        fail(s, "failed",
             "session '%s' cannot be started: sessions need bash, which this sandbox does not "
             "have. Run the command without a session",
             s->name);
        break;
    case SHELL_TOO_MANY:
        fail(s, "limit_reached",
             "session '%s' cannot be started, because there are already %d, which is the limit. "
             "Use an existing session, or none",
             s->name, SHELLS_MAX);
        break;
    case SHELL_LATE:
        fail(s, "timeout",
             "the shell of session '%s' did not start in time, so the command was not run. Try "
             "again with a larger timeout, or without a session",
             s->name);
        break;
    case SHELL_BUSY:
        fail(s, "session_busy",
             "session '%s' still runs an earlier command, so this one was not started in time. Use "
             "another session, or a larger timeout",
             s->name);
        break;
    case SHELL_NONE:
        fail(s, "session_lost",
             "the process that serves session '%s' was killed again before the command began, so "
             "the command was not run. Call the tool again, or leave session out",
             s->name);
        break;
    case SHELL_NOT_RUN:
        fail(s, "session_lost",
             "the shell of session '%s' was killed, or its files were removed, before the command "
             "began, so the command was not run. The next call gets a new shell",
             s->name);
        break;
    default:
        fail(s, "session_lost",
             "the shell of session '%s' was killed. The command may have run in part. The next "
             "call gets a new shell",
             s->name);
    }
}

// Return whether the keeper is starting and has the call's time for it.
static bool is_starting(const struct named_shell *s)
{
    const struct tool_call *c = s->run->call;
    return s->is_held && !c->cancelled && tool_call_ms(c) < run_timeout_ms(c);
}

static void on_client_end(const struct command_result *result, const struct err *e, void *ctx)
{
    struct named_shell *s = ctx;
    struct run *r = s->run;
    r->call->op = NULL;
    if (s->is_overrun && !r->call->cancelled) {
        fail_without_code(s);
    } else if (s->out.has_ended && s->err.has_ended) {
        take_result(s);
    } else if (e && result->may_have_run && e->code != ERR_CANCELED) {
        run_fail_lost(r, e);
    } else if (e) {
        run_fail(r, "run it", e);
    } else if (result->end == COMMAND_TIMED_OUT) {
        r->timed_out = true;
        run_end(r, result->status ? result->status : "");
    } else if (result->end == COMMAND_EXITED && result->exit_code == SHELL_NONE &&
               !s->was_started && !r->call->cancelled) {
        start_keeper(s);
    } else if (result->end == COMMAND_EXITED && result->exit_code == SHELL_NONE && is_starting(s)) {
        start_client(s);
    } else {
        fail_by_exit(s, result->end == COMMAND_EXITED ? result->exit_code : -1);
    }
}

static void start_client(struct named_shell *s)
{
    static const struct command_events EVENTS = {
        .on_stdout = on_stdout, .on_stderr = on_stderr, .on_end = on_client_end};
    struct tool_call *c = s->run->call;
    int64_t left_ms = run_timeout_ms(c) - tool_call_ms(c);
    char *id auto_free = random_hex(ID_BYTES);
    char *key auto_free = random_hex(KEY_BYTES);
    char *time auto_free = str_printf("%lld", (long long)(left_ms > 1 ? left_ms : 1));
    const char *const args[] = {"-c",    SHELL_CALL, "cubby",
                                s->name, id,         key,
                                time,    s->before,  tool_call_string(c, "command"),
                                NULL};
    struct command_opts opts = {
        .cmd = "/bin/bash",
        .args = args,
        .user = s->run->user,
        .timeout_ms = left_ms + GRACE_MS,
    };
    free(s->mark);
    s->mark = str_printf("\001cubby %s ", key);
    c->op = client_command(c->context->client, c->id, &opts, &EVENTS, s);
}

// ---- 2. the keeper

static void on_keeper_stdout(const char *data, size_t len, void *ctx)
{
    (void)data;
    (void)len;
    struct named_shell *s = ctx;
    s->is_ready = true;
    client_leave(s->run->call->op);
}

// The keeper runs, and its word does not come. The client finds out when it is ready.
static void on_keeper_held(void *ctx)
{
    struct named_shell *s = ctx;
    s->is_ready = s->is_held = true;
    client_leave(s->run->call->op);
}

static void on_keeper_stderr(const char *data, size_t len, void *ctx)
{
    struct named_shell *s = ctx;
    output_add(&s->run->err, data, len);
}

static void on_keeper_end(const struct command_result *result, const struct err *e, void *ctx)
{
    struct named_shell *s = ctx;
    struct run *r = s->run;
    r->call->op = NULL;
    if (r->call->cancelled)
        run_fail(r, "run it", &(struct err){.code = ERR_CANCELED});
    else if (e)
        run_fail(r, "start the shell of the session", e);
    else if (s->is_ready)
        start_client(s);
    else if (result->end == COMMAND_TIMED_OUT)
        fail_by_exit(s, SHELL_LATE);
    else
        fail_by_exit(s, result->end == COMMAND_EXITED ? result->exit_code : -1);
}

static void start_keeper(struct named_shell *s)
{
    static const struct command_events EVENTS = {
        .on_stdout = on_keeper_stdout,
        .on_stderr = on_keeper_stderr,
        .on_held = on_keeper_held,
        .on_end = on_keeper_end,
    };
    struct tool_call *c = s->run->call;
    int64_t left_s = (run_timeout_ms(c) - tool_call_ms(c)) / 1000;
    left_s = left_s > 1 ? left_s : 1;
    char *wait auto_free = str_printf("%lld", (long long)left_s);
    const char *const args[] = {"-c", SHELL_KEEP, "cubby", s->name, SHELL_LOOP, wait, NULL};
    struct command_opts opts = {
        .cmd = "/bin/bash",
        .args = args,
        .user = s->run->user,
        .leave_ms = left_s * 1000 + START_MS,
    };
    s->was_started = true;
    c->op = client_command(c->context->client, c->id, &opts, &EVENTS, s);
}

// ---- 3. the result

static json_t *names_in(const char *words)
{
    json_t *names = json_array();
    char *copy auto_free = xstrdup(words);
    char *rest = copy;
    for (char *w = strtok_r(rest, "/ \n", &rest); w; w = strtok_r(NULL, "/ \n", &rest))
        json_array_append_new(names, json_lossy_string(w, strlen(w)));
    return names;
}

// Parse "CODE WHY NEW LOST NAME/ NAME/ ...", the line behind the mark.
static void take_result(struct named_shell *s)
{
    struct run *r = s->run;
    char is_new[WORD_MAX + 1];
    char lost[WORD_MAX + 1];
    int at = 0;
    const char *line = buf_str(&s->out.held);
    if (sscanf(line, "%d %15s %15s %15s %n", &r->exit_code, s->why, is_new, lost, &at) != 4 ||
        !at) {
        fail_without_code(s);
        return;
    }
    if (str_eq(s->why, "late")) {
        fail_by_exit(s, SHELL_LATE);
        return;
    }
    if (str_eq(s->why, "start")) {
        fail_at_start(s);
        return;
    }
    s->is_new = str_eq(is_new, "new");
    s->has_ended = str_eq(lost, "lost");
    s->names = names_in(line + at);
    r->timed_out = str_eq(s->why, "timeout");
    char *status auto_free = str_printf("exit status %d", r->exit_code);
    run_end(r, status);
}

json_t *named_shell_view(const struct run *r)
{
    const struct named_shell *s = r->ctx;
    return json_pack("{s:s, s:b, s:b, s:O*}", "name", s->name, "new", s->is_new, "ended",
                     s->has_ended, "sessions", s->names);
}

// ---- the beginning

// Return the shell commands that precede the command, new string.
static char *before_of(const struct tool_call *c)
{
    struct buf out = BUF_INIT;
    const char *cwd = tool_call_string(c, "cwd");
    const json_t *envs = json_object_get(c->args, "envs");
    size_t i;
    json_t *one;
    buf_adds(&out, ":");
    if (cwd) {
        bool is_home = cwd[0] == '~';
        char *word auto_free = str_shell_word(cwd + is_home);
        buf_printf(&out, " && cd -- %s%s", is_home ? "\"$HOME\"" : "", word);
    }
    json_array_foreach (envs, i, one) {
        char *word auto_free = str_shell_word(json_string_value(one));
        buf_printf(&out, " && export -- %s", word);
    }
    return buf_take(&out);
}

// They are one argument of the client.
static void fail_long(struct named_shell *s)
{
    struct tool_call *c = s->run->call;
    size_t len = strlen(s->before);
    run_free(s->run);
    tool_call_fail(c, "invalid_argument",
                   "in a session, all of envs and cwd together take %zu bytes, quoted for the "
                   "shell, and at most %zu can be passed; put the values into a file%s",
                   len, RUN_ARGUMENT_MAX, tool_call_hint(c, "write_file", " with write_file"));
}

void named_shell_run(struct run *r, const char *name)
{
    struct named_shell *s = xcalloc(1, sizeof *s);
    *s = (struct named_shell){.run = r, .name = name, .before = before_of(r->call)};
    r->ctx = s;
    r->on_free = named_shell_free;
    if (strlen(s->before) > RUN_ARGUMENT_MAX)
        fail_long(s);
    else if (tool_call_client(r->call, run_timeout_ms(r->call) / 1000 + RUN_SLIDE_MARGIN_S))
        start_client(s);
    else
        run_free(r);
}
