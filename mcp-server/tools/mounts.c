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
    size_t len = strlen(root);
    return str_eq(root, "/") || (strncmp(path, root, len) == 0 && strchr("/", path[len]));
}

// Return whether the operator allows a model to mount the directory, for writing or for reading.
// Both paths are resolved, and cubbyd follows no link later.
static bool is_allowed(const struct config *config, const char *source, bool read_only)
{
    for (int i = 0; i < config->allow_mounts.count; i++) {
        bool only_read;
        char *root auto_free = client_mount_root(config->allow_mounts.items[i], &only_read);
        if (root && is_in(source, root) && (read_only || !only_read))
            return true;
    }
    return false;
}

// A model must not learn from the error whether a directory exists.
static int check_asked(const struct tool_call *c, const char *spec, const struct err *parsed,
                       const char *source, bool read_only, struct err *e)
{
    const struct config *config = c->context->config;
    if (parsed->code == ERR_INVALID)
        return err_set(e, ERR_INVALID, "argument 'mounts': %s", parsed->msg);
    if (!config->allow_mounts.count)
        return err_set(e, ERR_INVALID,
                       "argument 'mounts' is not allowed here. Ask the user to allow a directory "
                       "(--allow-mount of cubby-mcp)");
    if (!source || !is_allowed(config, source, read_only))
        return err_set(e, ERR_INVALID,
                       "argument 'mounts': %.200s is not a directory that may be mounted%s. Ask "
                       "the user to allow it (--allow-mount of cubby-mcp)",
                       spec, read_only ? "" : " for writing");
    return 0;
}

static int add(const struct tool_call *c, json_t *list, const char *spec, bool is_asked,
               struct err *e)
{
    struct err parsed = ERR_INIT;
    char *source auto_free = NULL, *target auto_free = NULL;
    bool read_only;
    client_mount_parse(spec, &source, &target, &read_only, &parsed);
    if (is_asked && check_asked(c, spec, &parsed, source, read_only, e) < 0)
        return -1;
    if (err_is(&parsed))
        return err_set(e, parsed.code, "--mount of cubby-mcp: %s", parsed.msg);
    json_t *one =
        json_pack("{s:s, s:s, s:b}", "source", source, "target", target, "readOnly", read_only);
    if (!one)
        return err_set(e, ERR_INVALID, "the directory %.200s has a name that is not UTF-8", spec);
    json_array_append_new(list, one);
    return 0;
}

json_t *mounts_wanted(const struct tool_call *c, struct err *e)
{
    const struct opt_list *usual = &c->context->config->mounts;
    const json_t *asked = json_object_get(c->args, "mounts"), *one;
    json_t *list = json_array();
    size_t i;
    bool fits = true;
    for (int at = 0; at < usual->count && fits; at++)
        fits = add(c, list, usual->items[at], false, e) == 0;
    json_array_foreach (asked, i, one)
        fits = fits && add(c, list, json_string_value(one), true, e) == 0;
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

static void on_mounted(const json_t *list, const struct err *e, void *ctx)
{
    struct tool_call *c = ctx;
    (void)list;
    c->op = NULL;
    if (e)
        finish(c, e);
    else
        make_next(c);
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
