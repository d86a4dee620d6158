// SPDX-License-Identifier: Apache-2.0
// Builds of templates: E2B's POST /v3/templates, POST /v2/templates/{}/builds/{}, their status and
// logs; and what may be done with a name that was built so.
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/api/api.h"
#include "sandbox-backend/daemon/api/body.h"
#include "sandbox-backend/daemon/builds/builds.h"
#include "sandbox-backend/daemon/http/api_keys.h"
#include "sandbox-backend/daemon/http/reply.h"
#include "sandbox-backend/daemon/sandbox/admit.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/daemon/sandbox/templates.h"

#define MEMORY_MB_MIN 256
#define FREE_DISK_MB  4096 // of the disk of 8192 MB that a build gets; more free space grows it
#define DELETED       "the template was deleted while the build ran"
#define ENDED         "the build was ended by a request"

static const char *caller_of(const struct api_call *c)
{
    return api_keys_caller(c->store->api_keys, c->req);
}

// ---- POST /v3/templates
// E2B takes names in any case and trims them.
static char *normalized(const char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    size_t len = strlen(text);
    while (len && isspace((unsigned char)text[len - 1]))
        len--;
    char *out = xstrndup(text, len);
    for (char *c = out; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    return out;
}

static int check_word(const char *what, const char *text, struct err *e)
{
    if (built_names_is_valid(text))
        return 0;
    return err_set(e, ERR_INVALID,
                   "%s \"%.100s\" is not valid: use at most %d lower-case letters, digits, '-', "
                   "'_' and '.', and begin with a letter or a digit",
                   what, text, NAMES_BYTES);
}

// Append a tag, once.
static int add_tag(json_t *tags, const char *text, struct err *e)
{
    size_t i;
    json_t *tag;
    char *word auto_free = normalized(text);
    if (check_word("the tag", word, e) < 0)
        return -1;
    json_array_foreach (tags, i, tag)
        if (str_eq(json_string_value(tag), word))
            return 0;
    json_array_append_new(tags, json_string(word));
    if (json_array_size(tags) > NAMES_TAGS_MAX)
        return err_set(e, ERR_INVALID, "there are more than %d tags", NAMES_TAGS_MAX);
    return 0;
}

static int read_tags(const json_t *body, const char *tag, json_t *tags, struct err *e)
{
    size_t i;
    json_t *one;
    const json_t *more = json_object_get(body, "tags");
    if (more && !json_is_null(more) && !json_is_array(more))
        return err_set(e, ERR_INVALID, "tags must be an array of strings");
    if (tag && add_tag(tags, tag, e) < 0)
        return -1;
    json_array_foreach (more, i, one) {
        if (!json_is_string(one))
            return err_set(e, ERR_INVALID, "tags must be an array of strings");
        if (add_tag(tags, json_string_value(one), e) < 0)
            return -1;
    }
    return json_array_size(tags) ? 0 : add_tag(tags, NAMES_TAG_DEFAULT, e);
}

static int read_size(const struct store_limits *l, const json_t *body, struct build_request *r,
                     struct err *e)
{
    int64_t cpus, free_mb;
    if (json_get_int(body, "cpuCount", 1, l->one_cpus, &cpus, 0, e) < 0 ||
        json_get_int(body, "memoryMB", MEMORY_MB_MIN, l->one_memory_bytes >> 20, &r->memory_mb, 0,
                     e) < 0 ||
        json_get_int(body, "minFreeDiskMb", 0, INT64_MAX, &free_mb, 0, e) < 0)
        return -1;
    int64_t most = l->one_disk_bytes >> 20;
    r->cpus = (int)cpus;
    if (free_mb)
        r->disk_mb = free_mb < most - FREE_DISK_MB ? free_mb + FREE_DISK_MB : most;
    return 0;
}

static json_t *view_requested(const struct build *b)
{
    return json_pack("{s:s, s:s, s:b, s:[s], s:O, s:[s]}", "templateID", b->name, "buildID", b->id,
                     "public", 0, "names", b->name, "tags", b->tags, "aliases", b->name);
}

static int read_name(const json_t *body, char **name, char **tag, struct err *e)
{
    const char *given = NULL, *alias = NULL;
    if (json_get_string(body, "name", &given, NULL, e) < 0 ||
        json_get_string(body, "alias", &alias, NULL, e) < 0)
        return -1;
    given = given && *given ? given : alias;
    if (!given || !*given)
        return err_set(e, ERR_INVALID, "name is required");
    char *word auto_free = normalized(given);
    built_names_split(word, name, tag);
    return check_word("the template name", *name, e);
}

static int request(struct api_call *c, json_t *tags, struct err *e)
{
    char *name auto_free = NULL, *tag auto_free = NULL;
    struct build_request r = {.caller = caller_of(c), .tags = tags};
    if (body_check_members(c->body, "", e, "name", "alias", "tags", "teamID", "cpuCount",
                           "memoryMB", "minFreeDiskMb") < 0 ||
        read_name(c->body, &name, &tag, e) < 0 || read_tags(c->body, tag, tags, e) < 0 ||
        read_size(&c->store->limits, c->body, &r, e) < 0)
        return -1;
    r.name = name;
    if (admit_check_draining(c->store, "builds of templates", e) < 0) {
        c->error_code = API_NODE_DRAINING;
        return -1;
    }
    const struct build *b = builds_request(c->store, &r, e);
    if (b)
        reply_json(c->req, 202, view_requested(b));
    return b ? 0 : -1;
}

int api_build_request(struct api_call *c, struct err *e)
{
    json_t *tags = json_array();
    int rc = request(c, tags, e);
    json_decref(tags);
    return rc;
}

// ---- one build
static struct build *find(struct api_call *c, struct err *e)
{
    struct build *b = builds_find(c->store, caller_of(c), c->arg, c->arg2);
    if (!b) {
        c->error_code = "build_not_found";
        err_set(e, ERR_NOT_FOUND, "there is no build '%.40s' of template '%.100s'", c->arg2,
                c->arg);
    }
    return b;
}

int api_build_start(struct api_call *c, struct err *e)
{
    struct build *b = find(c, e);
    if (!b)
        return -1;
    if (body_check_members(c->body, "", e, "fromImage", "fromTemplate", "fromImageRegistry",
                           "force", "steps", "startCmd", "readyCmd") < 0 ||
        builds_start(b, c->body, e) < 0) {
        builds_refuse(b, e->msg);
        return -1;
    }
    http_respond(c->req, 202, NULL, NULL, 0);
    return 0;
}

static int read_limit(struct api_call *c, const char *key, int64_t most, int64_t *out,
                      struct err *e)
{
    const char *text = http_request_query(c->req, key, NULL);
    if (text && !str_to_int(text, 0, most, out))
        return err_set(e, ERR_INVALID, "%s must be a number from 0 to %lld", key, (long long)most);
    return 0;
}

static int read_entries(struct api_call *c, struct build *b, const char *offset_key, json_t **out,
                        struct err *e)
{
    int64_t offset = 0, limit = BUILD_LOG_READ_MAX;
    enum build_level least = BUILD_DEBUG;
    const char *level = http_request_query(c->req, "level", NULL);
    if (read_limit(c, offset_key, INT32_MAX, &offset, e) < 0 ||
        read_limit(c, "limit", BUILD_LOG_READ_MAX, &limit, e) < 0)
        return -1;
    if (level && !build_level_parse(level, &least))
        return err_set(e, ERR_INVALID, "level must be debug, info, warn or error");
    *out = builds_log(b, (size_t)offset, (size_t)limit, least);
    return 0;
}

// E2B's older clients read the lines alone.
static json_t *lines_of(const json_t *entries)
{
    size_t i;
    json_t *entry;
    json_t *lines = json_array();
    json_array_foreach (entries, i, entry)
        json_array_append(lines, json_object_get(entry, "message"));
    return lines;
}

static json_t *reason_of(const struct build *b)
{
    return json_pack("{s:s, s:s*, s:[]}", "message", b->reason, "step", b->reason_step,
                     "logEntries");
}

int api_build_status(struct api_call *c, struct err *e)
{
    json_t *entries = NULL;
    struct build *b = find(c, e);
    if (!b || read_entries(c, b, "logsOffset", &entries, e) < 0)
        return -1;
    json_t *answer =
        json_pack("{s:s, s:s, s:s, s:o, s:o}", "templateID", b->name, "buildID", b->id, "status",
                  build_state_name(b->state), "logs", lines_of(entries), "logEntries", entries);
    if (b->state == BUILD_FAILED)
        json_object_set_new(answer, "reason", reason_of(b));
    reply_json(c->req, 200, answer);
    return 0;
}

int api_build_logs(struct api_call *c, struct err *e)
{
    json_t *entries = NULL;
    struct build *b = find(c, e);
    if (!b || read_entries(c, b, "cursor", &entries, e) < 0)
        return -1;
    reply_json(c->req, 200, json_pack("{s:o}", "logs", entries));
    return 0;
}

// Cubby's own: E2B has no request that ends one build. The answer does not wait for the end.
int api_build_end(struct api_call *c, struct err *e)
{
    struct build *b = find(c, e);
    if (!b)
        return -1;
    builds_end(b, ENDED);
    reply_empty(c->req);
    return 0;
}

// ---- names
int api_check_owner(struct api_call *c, const char *name, struct err *e)
{
    const struct built_names *names = &c->store->names;
    if (built_names_owns(names, caller_of(c), name))
        return 0;
    char *template auto_free = templates_resolve_as(c->store, caller_of(c), name);
    if (built_names_sees(names, caller_of(c), name) || template)
        return err_set(e, ERR_DENIED,
                       "template '%.100s' was not built through the API with this key, so this key "
                       "cannot change it",
                       name);
    c->error_code = "template_not_found";
    return err_set(e, ERR_NOT_FOUND, "template '%.100s' not found", name);
}

int api_template_publish(struct api_call *c, struct err *e)
{
    bool public;
    if (body_check_members(c->body, "", e, "public") < 0 ||
        json_get_bool(c->body, "public", &public, built_names_is_public(&c->store->names, c->arg),
                      e) < 0 ||
        api_check_owner(c, c->arg, e) < 0 ||
        built_names_publish(&c->store->names, c->arg, public, e) < 0)
        return -1;
    reply_json(c->req, 200, json_pack("{s:[s]}", "names", c->arg));
    return 0;
}

int api_build_delete(struct api_call *c, struct err *e)
{
    bool known = built_names_has(&c->store->names, c->arg);
    if (known && api_check_owner(c, c->arg, e) < 0)
        return -1;
    builds_end_all(c->store, c->arg, DELETED);
    if (known && builds_remove_name(c->store, c->arg, e) < 0) {
        c->error_code = "template_in_use";
        return -1;
    }
    reply_empty(c->req);
    return 0;
}
