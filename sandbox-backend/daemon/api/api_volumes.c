// SPDX-License-Identifier: Apache-2.0
// GET and POST /volumes, GET and DELETE /volumes/{id}. api_volume_content.c has their files.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/daemon/api/api.h"
#include "sandbox-backend/daemon/api/api_merge.h"
#include "sandbox-backend/daemon/api/body.h"
#include "sandbox-backend/daemon/http/api_keys.h"
#include "sandbox-backend/daemon/http/reply.h"
#include "sandbox-backend/daemon/mounts/mounts.h"
#include "sandbox-backend/daemon/sandbox/admit.h"
#include "sandbox-backend/daemon/sandbox/files.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/daemon/volumes/volumes.h"

// E2B's VolumeAndToken. It never has the directory on the host.
static json_t *view(const struct volume *volume)
{
    return json_pack("{s:s, s:s, s:s}", "volumeID", volume->id, "name", volume->name, "token",
                     volume->token);
}

static struct volume *find(struct api_call *c, struct err *e)
{
    struct volume *volume = volumes_find(&c->store->volumes, c->arg);
    if (volume && api_keys_sees(c->store->api_keys, c->req, volume->owner))
        return volume;
    c->error_code = "volume_not_found";
    err_set(e, ERR_NOT_FOUND, "Volume \"%.80s\" doesn't exist or you don't have access to it",
            c->arg);
    return NULL;
}

int api_volumes(struct api_call *c, struct err *e)
{
    (void)e;
    // Each owner may use the same names. A caller that sees all of them is told whose each is.
    bool is_host = api_keys_sees_host(c->store->api_keys, c->req);
    json_t *list = json_array();
    const struct volume *volume = NULL;
    TAILQ_FOREACH (volume, &c->store->volumes.all, link)
        if (api_keys_sees(c->store->api_keys, c->req, volume->owner))
            json_array_append_new(list,
                                  json_pack("{s:s, s:s, s:s*}", "volumeID", volume->id, "name",
                                            volume->name, "owner", is_host ? volume->owner : NULL));
    api_merge_named(c->store, c->req, list, "volumeID");
    return 0;
}

int api_volume_make(struct api_call *c, struct err *e)
{
    struct volumes *all = &c->store->volumes;
    const char *owner = api_keys_caller(c->store->api_keys, c->req);
    const char *name = NULL;
    if (body_check_members(c->body, "", e, "name") < 0 ||
        json_get_string(c->body, "name", &name, NULL, e) < 0)
        return -1;
    bool is_there = name && volumes_named(all, name, owner); // a fleet's proxy must hear of it
    if (!is_there && admit_check_draining(c->store, "volumes", e) < 0) {
        c->error_code = API_NODE_DRAINING;
        return -1;
    }
    if ((int64_t)volumes_count(all, owner) >= c->store->limits.volumes)
        return err_set(e, ERR_LIMIT,
                       "the limit of %lld volumes is reached; remove a volume, or start the daemon "
                       "with a higher --max-volumes (CUBBY_MAX_VOLUMES)",
                       (long long)c->store->limits.volumes);
    const struct volume *volume = volumes_make(all, name, owner, e);
    if (!volume)
        return -1;
    reply_json(c->req, 201, view(volume));
    return 0;
}

int api_volume(struct api_call *c, struct err *e)
{
    const struct volume *volume = find(c, e);
    if (!volume)
        return -1;
    reply_json(c->req, 200, view(volume));
    return 0;
}

static void on_removed(void *ctx)
{
    struct http_request *req = api_later_end(ctx);
    if (req)
        reply_empty(req);
}

int api_volume_remove(struct api_call *c, struct err *e)
{
    struct volume *volume = find(c, e);
    const struct sandbox *user = volume ? mounts_user(c->store, volume) : NULL;
    if (user)
        return err_set(e, ERR_CONFLICT,
                       "the volume \"%.80s\" is mounted in sandbox %s; end that sandbox first",
                       volume->name, user->id);
    char *gone auto_free = volume ? volumes_drop(&c->store->volumes, volume, e) : NULL;
    if (!gone)
        return -1;
    files_remove_tree(c->store->loop, gone, "volume.remove", on_removed, api_later_new(c));
    return 0;
}
