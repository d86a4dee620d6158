// SPDX-License-Identifier: Apache-2.0
// Where in a sandbox a file goes that is uploaded or downloaded.
#include "mcp-server/tools/place.h"

#include <string.h>

#include "mcp-server/tools/guest_entry.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

struct place {
    struct tool_call *call;
    char *wanted, *name; // owned
    void (*on_found)(struct tool_call *c, char *path, void *ctx);
    void *ctx;
};

static bool names_directory(const char *wanted)
{
    const char *base = str_base(wanted);
    const char *dot = strrchr(base, '.');
    return !*base || !dot || dot == base || !dot[1];
}

static char *inside(const char *dir, const char *name)
{
    return str_printf("%s%s%s", dir, str_ends(dir, "/") ? "" : "/", name);
}

static void settle(struct place *p, char *path)
{
    struct tool_call *c = p->call;
    void (*on_found)(struct tool_call * c, char *path, void *ctx) = p->on_found;
    void *ctx = p->ctx;
    free(p->wanted);
    free(p->name);
    free(p);
    on_found(c, path, ctx);
}

static void on_stat(const json_t *info, const struct err *e, void *ctx)
{
    struct place *p = ctx;
    p->call->op = NULL;
    // A failed look is no reason to stop: if the sandbox is gone, the next step says so.
    bool is_dir = !e && guest_entry_is_dir(json_object_get(info, "entry"));
    settle(p, is_dir ? inside(p->wanted, p->name) : xstrdup(p->wanted));
}

void place_find(struct tool_call *c, const char *wanted, const char *name,
                void (*on_found)(struct tool_call *c, char *path, void *ctx), void *ctx)
{
    if (names_directory(wanted)) {
        on_found(c, inside(wanted, name), ctx);
        return;
    }
    struct place *p = xmalloc(sizeof *p);
    *p = (struct place){.call = c,
                        .wanted = xstrdup(wanted),
                        .name = xstrdup(name),
                        .on_found = on_found,
                        .ctx = ctx};
    json_t *request = json_pack("{s:s}", "path", wanted);
    c->op = client_rpc(c->toolbox->client, c->id, "filesystem.Filesystem/Stat", request, NULL,
                       on_stat, p);
    json_decref(request);
}
