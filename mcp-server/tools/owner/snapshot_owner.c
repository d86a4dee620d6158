// SPDX-License-Identifier: Apache-2.0
// Decide whether a caller may use a snapshot.
#include "mcp-server/tools/owner/snapshot_owner.h"

#include <stdlib.h>
#include <string.h>

#include "mcp-server/context/owner.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

// Return the key under which owner.h remembers a snapshot, in the same table as sandboxes. No
// sandbox id has a colon.
static char *key_of(const char *id)
{
    return str_printf("snapshot:%s", id);
}

void snapshot_owner_note(const struct tool_call *c, const char *id)
{
    char *key auto_free = key_of(id);
    owner_note(c->context, c->caller, key);
}

static bool is_known(const struct tool_call *c, const char *id)
{
    char *key auto_free = key_of(id);
    return owner_is_known(c->context, c->caller, key);
}

bool snapshot_owner_is_of(const struct tool_call *c, const json_t *info)
{
    const char *id = json_string_value(json_object_get(info, "snapshotID"));
    if (id && is_known(c, id))
        return true;
    return json_is_object(json_object_get(info, "metadata")) &&
           owner_is_of(c->context, c->caller, info);
}

void snapshot_owner_fail(struct tool_call *c, const char *wanted)
{
    int shown = (int)utf8_valid_prefix(wanted, strnlen(wanted, 80));
    tool_call_fail(c, "snapshot_not_found", "there is no snapshot '%.*s'%s%s", shown, wanted,
                   tool_call_hint(c, "list_sandboxes", ". list_sandboxes lists the snapshots"),
                   tool_call_hint(c, "snapshot_sandbox", "; snapshot_sandbox makes one"));
}

// ---- asking
struct check {
    struct tool_call *call; // borrowed
    const char *wanted;     // borrowed
    bool or_template;
    void (*then)(struct tool_call *c);
};

// A name may mean several snapshots; all of them must belong to the caller.
static bool may_use(const struct check *k, const json_t *all)
{
    bool found = false;
    size_t i;
    json_t *info;
    json_array_foreach (all, i, info) {
        if (!client_snapshot_is(info, k->wanted))
            continue;
        found = true;
        if (!snapshot_owner_is_of(k->call, info))
            return false;
    }
    return found || k->or_template;
}

static void on_listed(const json_t *all, const struct err *e, void *ctx)
{
    const struct check k = *(const struct check *)ctx;
    struct tool_call *c = k.call;
    free(ctx);
    c->op = NULL;
    if (e && (e->code != ERR_UNIMPLEMENTED || !k.or_template))
        tool_call_fail_err(c, "look for the snapshot", e);
    else if (c->cancelled)
        tool_call_fail(c, "cancelled", "the call was cancelled");
    else if (e || may_use(&k, all))
        k.then(c);
    else
        snapshot_owner_fail(c, k.wanted);
}

void snapshot_owner_check(struct tool_call *c, const char *wanted, bool or_template,
                          void (*then)(struct tool_call *c))
{
    struct err e = ERR_INIT;
    if (is_known(c, wanted)) {
        then(c);
        return;
    }
    struct client *client = context_client(c->context, &e);
    if (!client) {
        tool_call_fail_err(c, "reach the sandboxes", &e);
        return;
    }
    struct check *k = xmalloc(sizeof *k);
    *k = (struct check){.call = c, .wanted = wanted, .or_template = or_template, .then = then};
    c->op = client_snapshots(client, NULL, on_listed, k);
}
