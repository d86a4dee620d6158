// SPDX-License-Identifier: Apache-2.0
// cubby selftest: creates and forks, several at once, measured up to a command's first output.
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/selftest/selftest.h"

#define STARTS_MAX 8
#define COMMAND_MS 60000

struct start {
    struct selftest *test; // borrowed
    int *left;             // starts that have not ended; borrowed
    double began, took;    // took 0: no output came
    char *id;              // owned
    struct err e;
};

static void end_start(struct start *s, const struct err *e)
{
    if (e && !err_is(&s->e))
        s->e = *e;
    if (--*s->left == 0)
        uv_stop(&s->test->c.loop);
}

// ---- the first command

static void on_stdout(const char *data, size_t len, void *ctx)
{
    struct start *s = ctx;
    (void)data, (void)len;
    if (s->took <= 0)
        s->took = selftest_ms() - s->began;
}

static void on_stderr(const char *data, size_t len, void *ctx)
{
    (void)data, (void)len, (void)ctx;
}

static void on_end(const struct command_result *r, const struct err *e, void *ctx)
{
    struct start *s = ctx;
    if (!e && (r->end != COMMAND_EXITED || r->exit_code != 0 || s->took <= 0))
        err_set(&s->e, ERR_INTERNAL, "the first command failed: %s", r->status);
    end_start(s, e);
}

static void run_first(struct start *s)
{
    static const struct command_events EVENTS = {
        .on_stdout = on_stdout, .on_stderr = on_stderr, .on_end = on_end};
    static const char *const ARGS[] = {"-c", "echo ready", NULL};
    const struct command_opts opts = {.cmd = "/bin/sh", .args = ARGS, .timeout_ms = COMMAND_MS};
    client_command(s->test->c.client, s->id, &opts, &EVENTS, s);
}

static void run_until(struct selftest *t, const int *left)
{
    while (*left > 0)
        uv_run(&t->c.loop, UV_RUN_DEFAULT);
}

// Kill what was started, but not the sandbox whose id moves to *keep. Return the first error.
static int clean(struct selftest *t, struct start *starts, int count, const char *list, char **keep,
                 struct err *e)
{
    for (int i = 0; i < count; i++) {
        struct start *s = &starts[i];
        char *id auto_free = steal(&s->id);
        if (err_is(&s->e))
            err_set(e, s->e.code, "%s", s->e.msg);
        else
            selftest_time(t, list, s->took);
        if (id && keep && !*keep)
            *keep = steal(&id);
        else if (id)
            connection_kill(&t->c, id, e);
    }
    return err_is(e) ? -1 : 0;
}

// ---- creates

static void on_created(const json_t *info, const struct err *e, void *ctx)
{
    struct start *s = ctx;
    const char *id = json_string_value(json_object_get(info, "sandboxID"));
    if (!id) {
        end_start(s, e);
        return;
    }
    s->id = xstrdup(id);
    if (!s->test->sandbox)
        s->test->sandbox = json_deep_copy(info);
    run_first(s);
}

int starts_create(struct selftest *t, int count, const char *list, char **keep, struct err *e)
{
    struct start starts[STARTS_MAX];
    int left = count;
    const struct sandbox_opts opts = {
        .template = t->template, .timeout_s = SELFTEST_TTL_S, .tier = t->tier};
    for (int i = 0; i < count; i++) {
        starts[i] = (struct start){.test = t, .left = &left, .began = selftest_ms()};
        client_create(t->c.client, &opts, on_created, &starts[i]);
    }
    run_until(t, &left);
    return clean(t, starts, count, list, keep, e);
}

// ---- forks

struct fork_wait {
    struct start *starts; // borrowed
    int count;
};

static void on_forked(const json_t *info, const struct err *e, void *ctx)
{
    struct fork_wait *w = ctx;
    for (int i = 0; i < w->count; i++) {
        struct start *s = &w->starts[i];
        const json_t *child = json_object_get(json_array_get(info, (size_t)i), "sandbox");
        const char *id = json_string_value(json_object_get(child, "sandboxID"));
        if (id) {
            s->id = xstrdup(id);
            run_first(s);
            continue;
        }
        err_set(&s->e, ERR_INTERNAL, "a copy of the sandbox was not made");
        end_start(s, e);
    }
}

int starts_fork(struct selftest *t, int count, struct buf *said, struct err *e)
{
    struct start starts[STARTS_MAX];
    int left = count;
    struct fork_wait w = {.starts = starts, .count = count};
    const struct fork_opts opts = {.timeout_s = SELFTEST_TTL_S, .count = count};
    double began = selftest_ms();
    for (int i = 0; i < count; i++)
        starts[i] = (struct start){.test = t, .left = &left, .began = began};
    client_fork(t->c.client, t->id, &opts, on_forked, &w);
    run_until(t, &left);
    // The copies are independent: what one of them writes, no other sandbox sees.
    for (int i = 0; i < count && !err_is(e); i++)
        if (starts[i].id)
            guest_expect(t, starts[i].id,
                         "test ! -e /tmp/of-copy && echo mine >/tmp/of-copy && "
                         "cat /tmp/selftest",
                         "kept", e);
    if (!err_is(e))
        guest_run(t, t->id, "test ! -e /tmp/of-copy", NULL, e);
    buf_printf(said, "%d copies", count);
    return clean(t, starts, count, "forkMs", NULL, e);
}
