// SPDX-License-Identifier: Apache-2.0
// Directories of the host that create_sandbox mounts.
#include "mcp-server/tools/mounts.h"

#include <stdlib.h>
#include <string.h>

#include "mcp-server/text/text.h"
#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

struct making {
    json_t *info, *wanted; // owned
    size_t next;
    void (*done)(struct tool_call *c, const json_t *info, const struct err *e);
};

// ---- what is wanted

static bool is_in(const char *path, const char *root)
{
    return str_eq(path, root) || str_path_is_below(path, root);
}

// Return the operator's directory that decides about `source`, the deepest that contains it; NULL:
// none does. *writable: neither that one nor one in `source` is for reading only. Both paths are
// resolved, and cubbyd follows no link later.
static const struct host_dir *find_allowed(const struct config *config, const char *source,
                                           bool *writable)
{
    const struct host_dir *best = NULL;
    bool holds_read_only = false;
    for (int i = 0; i < config->found_allowed.count; i++) {
        const struct host_dir *dir = &config->found_allowed.items[i];
        if (is_in(source, dir->path) && (!best || is_in(dir->path, best->path)))
            best = dir;
        holds_read_only = holds_read_only || (dir->read_only && is_in(dir->path, source));
    }
    *writable = best && !best->read_only && !holds_read_only;
    return best;
}

static int check_same(const struct host_dir *dir, struct err *e)
{
    int fd auto_close = host_dir_open(dir, e);
    return fd < 0 ? -1 : 0;
}

// A model must not learn from the error whether a directory exists.
static int check_asked(const struct tool_call *c, const char *spec, const struct err *parsed,
                       const char *source, bool read_only, struct err *e)
{
    const struct config *config = c->context->config;
    bool writable = false;
    if (parsed->code == ERR_INVALID)
        return err_set(e, ERR_INVALID, "argument 'mounts': %s", parsed->msg);
    if (!config->allow_mounts.count)
        return err_set(e, ERR_INVALID,
                       "argument 'mounts' is not allowed here. Ask the user to allow a directory "
                       "(--allow-mount of cubby-mcp)");
    const struct host_dir *dir = source ? find_allowed(config, source, &writable) : NULL;
    if (!dir || (!read_only && !writable))
        return err_set(e, ERR_INVALID,
                       "argument 'mounts': %.200s is not a directory that may be mounted%s. Ask "
                       "the user to allow it (--allow-mount of cubby-mcp)",
                       spec, read_only ? "" : " for writing");
    return check_same(dir, e) < 0 ? err_wrap(e, "--allow-mount of cubby-mcp") : 0;
}

static int add(json_t *list, const char *source, const char *target, bool read_only, struct err *e)
{
    json_t *one =
        json_pack("{s:s, s:s, s:b}", "source", source, "target", target, "readOnly", read_only);
    if (!one)
        return err_set(e, ERR_INVALID, "the directory %.200s has a name that is not UTF-8", source);
    json_array_append_new(list, one);
    return 0;
}

static int add_asked(const struct tool_call *c, json_t *list, const char *spec, struct err *e)
{
    struct err parsed = ERR_INIT;
    char *source auto_free = NULL, *target auto_free = NULL;
    bool read_only;
    client_mount_parse(spec, &source, &target, &read_only, &parsed);
    if (check_asked(c, spec, &parsed, source, read_only, e) < 0)
        return -1;
    return add(list, source, target, read_only, e);
}

static int add_usual(json_t *list, const struct host_dir *dir, struct err *e)
{
    if (check_same(dir, e) < 0)
        return err_wrap(e, "--mount of cubby-mcp");
    return add(list, dir->path, dir->target, dir->read_only, e);
}

json_t *mounts_wanted(const struct tool_call *c, struct err *e)
{
    const struct host_dirs *usual = &c->context->config->found_mounts;
    const json_t *asked = json_object_get(c->args, "mounts"), *one;
    json_t *list = json_array();
    size_t i;
    bool fits = true;
    for (int at = 0; at < usual->count && fits; at++)
        fits = add_usual(list, &usual->items[at], e) == 0;
    json_array_foreach (asked, i, one)
        fits = fits && add_asked(c, list, json_string_value(one), e) == 0;
    if (fits)
        return list;
    json_decref(list);
    return NULL;
}

char *mounts_hint(const json_t *wanted)
{
    struct buf out = BUF_INIT;
    size_t i;
    const json_t *one;
    json_array_foreach (wanted, i, one)
        buf_printf(&out, "%s%s shows %s of the host%s", i ? "; " : "", text_string(one, "target"),
                   text_string(one, "source"),
                   json_is_true(json_object_get(one, "readOnly")) ? ", for reading only" : "");
    if (out.len)
        buf_adds(&out, ". Secrets such as .env and .git/config are hidden there");
    return xstrdup(buf_str(&out));
}

// ---- mounting

static void make_next(struct tool_call *c);

static void finish(struct tool_call *c, const struct err *e)
{
    struct making *m = steal(&c->state);
    m->done(c, m->info, e);
    json_decref(m->info);
    json_decref(m->wanted);
    free(m);
}

// Set `e` in place of the daemon's error, which names the other mount and its sandbox: they may be
// those of another caller.
static void explain_conflict(const struct making *m, struct err *e)
{
    const json_t *failed = json_array_get(m->wanted, m->next - 1);
    const char *source = text_string(failed, "source"), *target = text_string(failed, "target");
    bool is_taken = false;
    for (size_t i = 0; i + 1 < m->next && !is_taken; i++)
        is_taken = source_targets_apart(target, text_string(json_array_get(m->wanted, i), "target"),
                                        e) < 0;
    if (!is_taken)
        err_set(e, ERR_CONFLICT,
                "cannot mount %.200s: it is now another directory, or a running sandbox mounts a "
                "directory that contains it or is inside it. If one mounted directory contains "
                "another, the outer one must be read-only: add :ro, choose another directory, or "
                "wait until that sandbox has ended",
                source);
}

static void on_mounted(const json_t *list, const struct err *e, void *ctx)
{
    struct tool_call *c = ctx;
    (void)list;
    c->op = NULL;
    if (!e) {
        make_next(c);
        return;
    }
    struct err told = ERR_INIT;
    if (e->code == ERR_CONFLICT)
        explain_conflict(c->state, &told);
    finish(c, err_is(&told) ? &told : e);
}

static void make_next(struct tool_call *c)
{
    struct making *m = c->state;
    const json_t *one = json_array_get(m->wanted, m->next++);
    if (!one) {
        finish(c, NULL);
        return;
    }
    const struct mount_opts opts = {.source = text_string(one, "source"),
                                    .target = text_string(one, "target"),
                                    .read_only = json_is_true(json_object_get(one, "readOnly"))};
    c->op =
        client_mount(c->context->client, text_string(m->info, "sandboxID"), &opts, on_mounted, c);
}

void mounts_make(struct tool_call *c, const json_t *info, json_t *wanted,
                 void (*done)(struct tool_call *c, const json_t *info, const struct err *e))
{
    struct making *m = xcalloc(1, sizeof *m);
    *m = (struct making){
        .info = json_incref((json_t *)(uintptr_t)info), .wanted = wanted, .done = done};
    c->state = m;
    make_next(c);
}
