// SPDX-License-Identifier: Apache-2.0
// list_sandboxes: the caller's sandboxes and snapshots. It is the first tool of the list, which
// some clients call to probe a server. So it changes nothing, and does not start a daemon that has
// nothing to report.
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "mcp-server/context/owner.h"
#include "mcp-server/text/text.h"
#include "mcp-server/tools/call/tools.h"
#include "mcp-server/tools/owner/snapshot_owner.h"
#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/visible.h"
#include "sandbox-backend/log/log.h"

#define SHOWN_MAX 100

// ---- 1. is there anything to ask

static bool is_listening(const char *home)
{
    char *path auto_free = home_path(home, "cubbyd.sock");
    int fd auto_close = fd_connect_unix(path);
    return fd >= 0 ||
           (errno != ENOENT && errno != ECONNREFUSED); // the next request reports the error
}

// A stopped daemon has nothing to report, unless it ended without ending its sandboxes; it takes
// those over when it starts.
static bool is_nothing_there(const struct context *cx)
{
    struct err e = ERR_INIT;
    if (config_is_remote(cx->config))
        return false;
    char *home auto_free = home_open(&e);
    char *sandboxes auto_free = home ? str_printf("%s/sandboxes", home) : NULL;
    char *snapshots auto_free = home ? str_printf("%s/snapshots", home) : NULL;
    return home && !is_listening(home) && !dir_has_entries(sandboxes) &&
           !dir_has_entries(snapshots);
}

// ---- 2. the list

static void set_string(json_t *to, const char *name, const json_t *from, const char *key)
{
    const char *value = json_string_value(json_object_get(from, key));
    json_object_set_new(to, name, json_string(value ? value : ""));
}

// A paused sandbox has no end; its time continues when it is resumed.
static bool is_paused(const json_t *one)
{
    return str_eq(text_string(one, "state"), "paused");
}

static json_t *shown(const json_t *info)
{
    int64_t end = 0;
    json_t *one = json_object();
    const char *alias = json_string_value(json_object_get(info, "alias"));
    set_string(one, "sandbox_id", info, "sandboxID");
    set_string(one, "template", info, alias && *alias ? "alias" : "templateID");
    set_string(one, "state", info, "state");
    if (json_object_get(json_object_get(info, "metadata"), OWNER_NAME_KEY))
        set_string(one, "name", json_object_get(info, "metadata"), OWNER_NAME_KEY);
    set_string(one, "created", info, "startedAt");
    if (json_is_string(json_object_get(info, "tier")))
        set_string(one, "tier", info, "tier");
    if (is_paused(one) || !json_object_get(info, "endAt"))
        return one;
    set_string(one, "ends_at", info, "endAt");
    int64_t left = clock_parse_rfc3339(text_string(info, "endAt"), &end)
                       ? (end - clock_wall_ns()) / 1000000000
                       : 0;
    json_object_set_new(one, "remaining_s", json_integer(left > 0 ? left : 0));
    return one;
}

static json_t *own_sandboxes(struct tool_call *c, const json_t *all)
{
    json_t *list = json_array();
    json_int_t total = 0;
    size_t i;
    json_t *info;
    json_array_foreach (all, i, info) {
        if (!owner_is_of(c->context, c->caller, info))
            continue;
        owner_note(c->context, c->caller, text_string(info, "sandboxID"));
        if (total++ < SHOWN_MAX)
            json_array_append_new(list, shown(info));
    }
    return json_pack("{s:o, s:I}", "sandboxes", list, "total", total);
}

// ---- 3. the snapshots, where there are any

static json_t *shown_snapshot(const json_t *info)
{
    json_t *one = json_object();
    const json_t *name = json_array_get(json_object_get(info, "names"), 0);
    set_string(one, "snapshot_id", info, "snapshotID");
    if (json_is_string(name))
        json_object_set_new(one, "name", json_string(json_string_value(name)));
    if (json_object_get(info, "sandboxID"))
        set_string(one, "sandbox_id", info, "sandboxID");
    if (json_is_string(json_object_get(info, "tier")))
        set_string(one, "tier", info, "tier");
    if (json_object_get(info, "createdAt"))
        set_string(one, "created", info, "createdAt");
    return one;
}

static void add_snapshots(struct tool_call *c, json_t *found, const json_t *all)
{
    json_t *list = json_array();
    json_int_t total = 0;
    size_t i;
    json_t *info;
    json_array_foreach (all, i, info) {
        if (snapshot_owner_is_of(c, info) && total++ < SHOWN_MAX)
            json_array_append_new(list, shown_snapshot(info));
    }
    json_object_set_new(found, "snapshots", list);
    json_object_set_new(found, "total_snapshots", json_integer(total));
}

// The list is useful without the snapshots, too.
static void on_snapshots(const json_t *all, const struct err *e, void *ctx)
{
    struct tool_call *c = ctx;
    json_t *found = c->state;
    c->op = NULL;
    c->state = NULL;
    if (e)
        log_debug("snapshots.list", "error=%s", e->msg);
    else
        add_snapshots(c, found, all);
    tool_call_finish(c, found);
}

static void on_listed(const json_t *all, const struct err *e, void *ctx)
{
    struct tool_call *c = ctx;
    c->op = NULL;
    if (e) {
        tool_call_fail_err(c, "list the sandboxes", e);
    } else if (c->cancelled || !tools_find(c->context, "snapshot_sandbox")) {
        tool_call_finish(c, own_sandboxes(c, all));
    } else {
        c->state = own_sandboxes(c, all);
        c->op = client_snapshots(c->context->client, NULL, on_snapshots, c);
    }
}

static void start(struct tool_call *c)
{
    if (!c->context->client && is_nothing_there(c->context)) {
        tool_call_finish(c, own_sandboxes(c, NULL));
        return;
    }
    struct client *client = tool_call_client(c, 0);
    if (!client)
        return;
    json_t *mine = owner_metadata(c->caller);
    c->op = client_list(client, mine, on_listed, c);
    json_decref(mine);
}

// ---- 4. the text

static void add_hidden(struct buf *out, const json_t *o, const char *total, const json_t *list)
{
    long long hidden = text_int(o, total) - (long long)json_array_size(list);
    if (hidden > 0)
        buf_printf(out, "[%lld more are not shown]\n", hidden);
}

static const char *or_dash(const char *text)
{
    return *text ? text : "-";
}

static void add_sandboxes(struct buf *out, const json_t *o)
{
    const json_t *list = json_object_get(o, "sandboxes");
    size_t i;
    json_t *one;
    if (json_array_size(list) == 0) {
        buf_adds(out, "No sandboxes. Create one first.\n");
        return;
    }
    buf_printf(out, "%-20s  %-12s  %-8s  %-7s  %-20s  %s\n", "sandbox_id", "template", "state",
               "tier", "created", "ends in");
    json_array_foreach (list, i, one) {
        const char *tier = text_string(one, "tier"); // empty: the backend has no tiers
        buf_printf(out, "%-20s  %-12s  %-8s  %-7s  %-20.19s  ", text_string(one, "sandbox_id"),
                   text_string(one, "template"), or_dash(text_string(one, "state")), or_dash(tier),
                   or_dash(text_string(one, "created")));
        if (is_paused(one))
            buf_adds(out, "no end while it is paused");
        else if (!json_object_get(one, "remaining_s"))
            buf_adds(out, "-"); // the server does not tell
        else
            buf_printf(out, "%lld s", text_int(one, "remaining_s"));
        char *name auto_free = visible_text(text_string(one, "name"));
        buf_printf(out, "%s%s\n", *name ? "  " : "", name);
    }
    add_hidden(out, o, "total", list);
}

static void add_snapshot_lines(struct buf *out, const json_t *o)
{
    const json_t *list = json_object_get(o, "snapshots");
    size_t i;
    json_t *one;
    if (json_array_size(list) == 0)
        return;
    buf_printf(out, "\n%-25s  %-20s  %-10s  %-19s  %s\n", "snapshot_id", "of sandbox", "tier",
               "created", "name");
    json_array_foreach (list, i, one) {
        char *name auto_free = visible_text(text_string(one, "name"));
        buf_printf(out, "%-25s  %-20s  %-10s  %.19s%s%s\n", text_string(one, "snapshot_id"),
                   text_string(one, "sandbox_id"), or_dash(text_string(one, "tier")),
                   text_string(one, "created"), *name ? "  " : "", name);
    }
    add_hidden(out, o, "total_snapshots", list);
}

static char *text_of(const json_t *o)
{
    struct buf out = BUF_INIT;
    add_sandboxes(&out, o);
    add_snapshot_lines(&out, o);
    out.data[--out.len] = '\0';
    return buf_take(&out);
}

const struct tool tool_list_sandboxes = {.name = "list_sandboxes", .start = start, .text = text_of};
