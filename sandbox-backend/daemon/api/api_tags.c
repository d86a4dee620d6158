// SPDX-License-Identifier: Apache-2.0
// Tags of templates that were built through the API: /templates/tags and /templates/{}/tags.
#include <stdlib.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/api/api.h"
#include "sandbox-backend/daemon/api/body.h"
#include "sandbox-backend/daemon/builds/builds.h"
#include "sandbox-backend/daemon/http/api_keys.h"
#include "sandbox-backend/daemon/http/reply.h"
#include "sandbox-backend/daemon/sandbox/store.h"

// Check an array of tags. A tag may be written with the name before it.
static json_t *read_tags(const json_t *body, const char *name, struct err *e)
{
    size_t i;
    json_t *one;
    const json_t *given = json_object_get(body, "tags");
    json_t *tags = json_array();
    json_array_foreach (given, i, one) {
        char *before auto_free = NULL, *tag auto_free = NULL;
        built_names_split(json_is_string(one) ? json_string_value(one) : "", &before, &tag);
        const char *word = tag && str_eq(before, name) ? tag : tag ? "" : before;
        if (!built_names_is_valid(word))
            err_set(e, ERR_INVALID, "tags[%zu] is not a valid tag", i);
        json_array_append_new(tags, json_string(word));
    }
    if (!json_array_size(tags))
        err_set(e, ERR_INVALID, "tags must be an array of at least one tag");
    if (!err_is(e))
        return tags;
    json_decref(tags);
    return NULL;
}

// ---- POST: let tags point to the build that target has
static int assign(struct api_call *c, const char *name, const char *tag, struct err *e)
{
    struct built_names *names = &c->store->names;
    if (api_check_owner(c, name, e) < 0)
        return -1;
    const char *build = built_names_build_of(names, name, tag ? tag : NAMES_TAG_DEFAULT);
    if (!build)
        return err_set(e, ERR_NOT_FOUND, "template '%.100s' has no tag '%.100s'", name,
                       tag ? tag : NAMES_TAG_DEFAULT);
    char *id auto_free = xstrdup(build); // the table changes
    json_t *tags = read_tags(c->body, name, e);
    if (!tags || built_names_tag(names, name, id, tags, e) < 0) {
        json_decref(tags);
        return -1;
    }
    reply_json(c->req, 201, json_pack("{s:o, s:s}", "tags", tags, "buildID", id));
    builds_collect(c->store);
    return 0;
}

int api_tags_assign(struct api_call *c, struct err *e)
{
    const char *target = NULL;
    char *name auto_free = NULL, *tag auto_free = NULL;
    if (body_check_members(c->body, "", e, "target", "tags") < 0 ||
        json_get_string(c->body, "target", &target, "", e) < 0)
        return -1;
    built_names_split(target, &name, &tag);
    return assign(c, name, tag, e);
}

// ---- DELETE
int api_tags_remove(struct api_call *c, struct err *e)
{
    const char *name = NULL;
    if (body_check_members(c->body, "", e, "name", "tags") < 0 ||
        json_get_string(c->body, "name", &name, "", e) < 0 || api_check_owner(c, name, e) < 0)
        return -1;
    json_t *tags = read_tags(c->body, name, e);
    int rc = tags ? built_names_untag(&c->store->names, name, tags, e) : -1;
    json_decref(tags);
    if (rc < 0)
        return -1;
    reply_empty(c->req);
    builds_collect(c->store);
    return 0;
}

// ---- GET
int api_tags(struct api_call *c, struct err *e)
{
    const char *tag;
    json_t *at;
    const struct built_names *names = &c->store->names;
    if (!built_names_sees(names, api_keys_caller(c->store->api_keys, c->req), c->arg)) {
        c->error_code = "template_not_found";
        return err_set(e, ERR_NOT_FOUND,
                       "template '%.100s' has no tags: it was not built through the API", c->arg);
    }
    json_t *list = json_array();
    json_object_foreach ((json_t *)(uintptr_t)built_names_tags(names, c->arg), tag, at) {
        char since[CLOCK_RFC3339_BYTES];
        clock_rfc3339(since, json_integer_value(json_object_get(at, "assigned_ns")));
        json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "tag", tag, "buildID",
                                              json_string_value(json_object_get(at, "build")),
                                              "createdAt", since));
    }
    reply_json(c->req, 200, list);
    return 0;
}
