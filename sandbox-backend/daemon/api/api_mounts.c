// SPDX-License-Identifier: Apache-2.0
// /sandboxes/{id}/mounts: directories of the host in a sandbox (mounts.h).
//
// A path of the host may name any file that the daemon's user may read, so only the unix socket may
// mount one.
#include <stdlib.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/api/api.h"
#include "sandbox-backend/daemon/api/body.h"
#include "sandbox-backend/daemon/http/api_keys.h"
#include "sandbox-backend/daemon/http/reply.h"
#include "sandbox-backend/daemon/mounts/mounts.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/daemon/sandbox/store.h"

struct mounting {
    struct http_request *req; // borrowed; NULL once the client has gone
    struct mount *mount;      // borrowed, until on_mounted
    struct sandbox *sb;       // borrowed
    char *target;             // owned
};

static int check_caller(const struct api_call *c, struct err *e)
{
    if (api_keys_sees_host(c->store->api_keys, c->req))
        return 0;
    return err_set(
        e, ERR_DENIED,
        "Only the daemon's unix socket may mount directories of the host; an API key may "
        "upload files, or use a volume");
}

static void on_mounted(const struct err *e, void *ctx)
{
    struct mounting *p = ctx;
    if (p->req) {
        http_request_on_close(p->req, NULL, NULL);
        if (e)
            reply_err(p->req, "mount_failed", e);
        else
            reply_json(p->req, 201, mounts_view(p->sb));
    }
    free(p->target);
    free(p);
}

// The mount stays: another try finds it.
static void on_client_gone(void *ctx)
{
    struct mounting *p = ctx;
    mounts_forget_caller(p->mount);
    free(p->target);
    free(p);
}

int api_mount(struct api_call *c, struct err *e)
{
    struct mount_want want = {0};
    if (check_caller(c, e) < 0 ||
        body_check_members(c->body, "", e, "source", "target", "readOnly", "resolved") < 0 ||
        json_get_string(c->body, "source", &want.source, "", e) < 0 ||
        json_get_string(c->body, "target", &want.target, "", e) < 0 ||
        json_get_bool(c->body, "readOnly", &want.read_only, false, e) < 0 ||
        json_get_bool(c->body, "resolved", &want.resolved, false, e) < 0 ||
        mounts_check(c->sb, &want, e) < 0)
        return -1;
    if (api_need_running(c, e) < 0)
        return -1;
    struct mounting *p = xcalloc(1, sizeof *p);
    *p = (struct mounting){.req = c->req, .sb = c->sb, .target = xstrdup(want.target)};
    http_request_on_close(c->req, on_client_gone, p);
    p->mount = mounts_add(c->sb, &want, on_mounted, p);
    return 0;
}

int api_mounts(struct api_call *c, struct err *e)
{
    if (check_caller(c, e) < 0)
        return -1;
    reply_json(c->req, 200, mounts_view(c->sb));
    return 0;
}

int api_unmount(struct api_call *c, struct err *e)
{
    bool bad = false;
    if (check_caller(c, e) < 0 || api_check_stays(c, e) < 0)
        return -1;
    const char *target = http_request_query(c->req, "target", &bad);
    if (!target || bad)
        return err_set(e, ERR_INVALID, "target is required: the path in the sandbox");
    if (mounts_remove(c->sb, target, e) < 0)
        return -1;
    reply_empty(c->req);
    return 0;
}
