// SPDX-License-Identifier: Apache-2.0
// /templates, /teams and /health.
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/version.h"
#include "sandbox-backend/daemon/api.h"
#include "sandbox-backend/daemon/gate.h"
#include "sandbox-backend/daemon/reply.h"
#include "sandbox-backend/daemon/store.h"
#include "sandbox-backend/daemon/templates.h"

#define NAMES_BYTES 200 // of snapshots, in a message

void api_templates(struct store *store, struct http_request *req, const char *arg)
{
    (void)arg;
    reply_json(req, 200, templates_list(store));
}

// False after an answer.
static bool find(struct store *store, struct http_request *req, const char *name,
                 struct known_template *t)
{
    struct err e = ERR_INIT;
    struct gate_caller caller = gate_caller_of(store->gate, req);
    if (templates_find_as(store, caller.name, name, t, &e) == 0)
        return true;
    reply_err(req, e.code == ERR_NOT_FOUND ? "template_not_found" : NULL, &e);
    return false;
}

void api_template(struct store *store, struct http_request *req, const char *name)
{
    struct known_template t = {0};
    if (find(store, req, name, &t))
        reply_json(req, 200, templates_detail(store, &t));
    templates_fini(&t);
}

// "snap-x, snap-y ..." of a template's snapshots that the caller may know of; NULL: it has none, or
// none that he may. New string.
static char *snapshots_of(const struct store *store, struct http_request *req, const char *template)
{
    struct buf names = BUF_INIT;
    const struct snapshot *snap = NULL;
    TAILQ_FOREACH(snap, &store->snapshots.all, link)
    {
        if (strcmp(snap->template, template) != 0 || !gate_sees(store->gate, req, snap->owner))
            continue;
        if (names.len > NAMES_BYTES) {
            buf_adds(&names, " ...");
            break;
        }
        buf_printf(&names, "%s%s", names.len ? ", " : "", snap->id);
    }
    return names.len ? buf_take(&names) : NULL;
}

// A snapshot is its maker's. A template is the machine's, and others may be using it: it is not for
// a request to remove.
void api_template_delete(struct store *store, struct http_request *req, const char *name)
{
    struct known_template t = {0};
    struct gate_caller caller = gate_caller_of(store->gate, req);
    char *template auto_free = templates_resolve(store, name);
    struct snapshot *snap = template ? NULL : snapshots_find(&store->snapshots, caller.name, name);
    if (snap) { // also one that cannot be used any more
        api_snapshot_delete(store, req, snap);
        return;
    }
    if (!find(store, req, name, &t))
        return;
    char *needed auto_free = snapshots_of(store, req, t.name);
    if (needed)
        reply_error(req, 409, "template_in_use", "template '%s' is needed by snapshots of it: %s",
                    t.name, needed);
    else
        reply_error(req, 403, "template_in_use",
                    "template '%s' belongs to the machine; `cubby template rm %s` there removes it",
                    t.name, t.name);
    templates_fini(&t);
}

void api_alias(struct store *store, struct http_request *req, const char *alias)
{
    struct known_template t = {0};
    if (find(store, req, alias, &t))
        reply_json(req, 200, json_pack("{s:s, s:b}", "templateID", t.name, "public", 0));
    templates_fini(&t);
}

// E2B's command line asks for a team before anything else.
void api_teams(struct store *store, struct http_request *req, const char *arg)
{
    (void)arg;
    struct gate_caller caller = gate_caller_of(store->gate, req);
    reply_json(req, 200,
               json_pack("[{s:s, s:s, s:s, s:b}]", "teamID", "cubby", "name",
                         caller.name ? caller.name : "cubby", "apiKey", "", "isDefault", 1));
}

// More than E2B's "ok": what is in use of what there is. A stranger is only told that it is there.
void api_health(struct store *store, struct http_request *req, const char *arg)
{
    (void)arg;
    if (gate_caller_of(store->gate, req).name) {
        reply_json(req, 200, json_pack("{s:s, s:s}", "status", "ok", "server", "cubbyd"));
        return;
    }
    reply_json(req, 200,
               json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:s?}", "status", "ok", "server",
                         "cubbyd", "version", CUBBY_VERSION, "sandboxes", (json_int_t)store->count,
                         "maxSandboxes", (json_int_t)store->limits.sandboxes, "memoryMB",
                         (json_int_t)(store_memory_bytes(store) >> 20), "maxMemoryMB",
                         (json_int_t)(store->limits.memory_bytes >> 20), "url", store->url));
}
