// SPDX-License-Identifier: Apache-2.0
// Webhooks, and webhooks.json.
#include "sandbox-backend/daemon/events/webhooks.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/json_fields.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"

#define FORMAT         1
#define FILE_BYTES_MAX (16L << 20)
#define SECRET_MAX     1000

#define TEXT(member) JSON_FIELD(JSON_FIELD_TEXT, struct webhook, member)
#define LONG(member) JSON_FIELD(JSON_FIELD_LONG, struct webhook, member)
#define BOOL(member) JSON_FIELD(JSON_FIELD_BOOL, struct webhook, member)
static const struct json_field FIELDS[] = {TEXT(id),     TEXT(name),      TEXT(url),
                                           TEXT(secret), TEXT(owner),     BOOL(enabled),
                                           LONG(types),  LONG(created_ns)};

static void free_texts(struct webhook *hook)
{
    free(hook->name);
    free(hook->url);
    free(hook->secret);
}

static void hook_free(struct webhook *hook)
{
    if (hook->courier)
        courier_close(hook->courier);
    free_texts(hook);
    free(hook->id);
    free(hook->owner);
    free(hook);
}

static void aim(struct webhooks *w, struct webhook *hook)
{
    const struct courier_target to = {
        .id = hook->id, .url = hook->url, .secret = hook->secret, .goes_anywhere = !hook->owner};
    if (hook->courier)
        courier_aim(hook->courier, &to);
    else
        hook->courier = courier_new(&w->couriers, &to);
}

// ---- the file
static int save(const struct webhooks *w, struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    json_t *list = json_array();
    const struct webhook *hook = NULL;
    TAILQ_FOREACH (hook, &w->all, link) {
        json_t *one = json_object();
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is freed was taken out of the list
        json_fields_write(one, hook, FIELDS, ARRAY_LEN(FIELDS));
        json_array_append_new(list, one);
    }
    json_t *all = json_pack("{s:i, s:o}", "format", FORMAT, "webhooks", list);
    json_to_buf(&text, all);
    json_decref(all);
    return file_write_atomic(w->path, text.data, text.len, 0600, e);
}

static void read_one(struct webhooks *w, const json_t *json, struct err *e)
{
    struct webhook *hook = xcalloc(1, sizeof *hook);
    TAILQ_INSERT_TAIL(&w->all, hook, link);
    if (json_fields_read(hook, json, FIELDS, ARRAY_LEN(FIELDS), e) < 0)
        return;
    if (hook->id && hook->name && hook->url && hook->secret)
        aim(w, hook);
    else
        err_set(e, ERR_INVALID, "a webhook lacks its id, name, url or secret");
}

static int read_all(struct webhooks *w, struct err *e)
{
    int64_t format = 0;
    size_t i;
    const json_t *one;
    if (!file_exists(w->path))
        return 0;
    json_t *json = json_file_read(w->path, FILE_BYTES_MAX, e);
    if (json && json_get_int(json, "format", FORMAT, FORMAT, &format, 0, e) == 0)
        json_array_foreach (json_object_get(json, "webhooks"), i, one)
            if (!err_is(e))
                read_one(w, one, e);
    json_decref(json);
    return err_is(e) ? err_wrap(e, "%s", w->path) : 0;
}

int webhooks_open(struct webhooks *w, uv_loop_t *loop, const char *home,
                  const struct fetch_guard *guard, struct err *e)
{
    TAILQ_INIT(&w->all);
    w->path = home_path(home, "webhooks.json");
    couriers_init(&w->couriers, loop, guard);
    return read_all(w, e);
}

void webhooks_close(struct webhooks *w)
{
    struct webhook *hook = NULL;
    TAILQ_FOREACH (hook, &w->all, link)
        if (hook->courier)
            courier_close(steal(&hook->courier));
    couriers_close(&w->couriers);
}

void webhooks_fini(struct webhooks *w)
{
    for (struct webhook *hook; w->path && (hook = TAILQ_FIRST(&w->all));) {
        TAILQ_REMOVE(&w->all, hook, link);
        hook_free(hook);
    }
    free(w->path);
}

// ---- changes
struct webhook *webhooks_find(const struct webhooks *w, const char *id)
{
    struct webhook *hook = NULL;
    TAILQ_FOREACH (hook, &w->all, link)
        if (strcmp(hook->id, id) == 0)
            return hook;
    return NULL;
}

static int check_text(const char *name, const char *text, size_t max, struct err *e)
{
    size_t len = text ? strlen(text) : 1;
    if (len >= 1 && len <= max)
        return 0;
    return err_set(e, ERR_INVALID, "%s must have 1 to %zu bytes", name, max);
}

static int check(const struct webhook_wish *wish, struct err *e)
{
    if (check_text("name", wish->name, WEBHOOK_NAME_BYTES_MAX, e) < 0 ||
        check_text("url", wish->url, WEBHOOK_URL_BYTES_MAX, e) < 0 ||
        check_text("signatureSecret", wish->secret, SECRET_MAX, e) < 0)
        return -1;
    if (wish->url && !str_starts(wish->url, "https://") && !str_starts(wish->url, "http://"))
        return err_set(e, ERR_INVALID, "url must begin with https:// or http://");
    return 0;
}

static void replace(char **text, const char *with)
{
    if (!with)
        return;
    free(*text);
    *text = xstrdup(with);
}

static void apply(struct webhook *hook, const struct webhook_wish *wish)
{
    replace(&hook->name, wish->name);
    replace(&hook->url, wish->url);
    replace(&hook->secret, wish->secret);
    hook->types = wish->types ? wish->types : hook->types;
    hook->enabled = wish->enabled < 0 ? hook->enabled : wish->enabled;
}

static bool is_of(const struct webhook *hook, const char *owner)
{
    return owner ? str_eq(hook->owner, owner) : !hook->owner;
}

static size_t count_of(const struct webhooks *w, const char *owner)
{
    size_t count = 0;
    const struct webhook *hook = NULL;
    TAILQ_FOREACH (hook, &w->all, link)
        count += is_of(hook, owner);
    return count;
}

struct webhook *webhooks_add(struct webhooks *w, const struct webhook_wish *wish, const char *owner,
                             struct err *e)
{
    if (check(wish, e) < 0)
        return NULL;
    if (count_of(w, owner) >= WEBHOOKS_MAX) {
        err_set(e, ERR_LIMIT, "the limit of %d webhooks is reached; delete one", WEBHOOKS_MAX);
        return NULL;
    }
    struct webhook *hook = xcalloc(1, sizeof *hook);
    hook->id = random_uuid();
    hook->owner = owner ? xstrdup(owner) : NULL;
    hook->created_ns = clock_wall_ns();
    apply(hook, wish);
    TAILQ_INSERT_TAIL(&w->all, hook, link);
    if (save(w, e) == 0) {
        aim(w, hook);
        log_info("webhook.added", "id=%s", hook->id); // a URL may hold a secret
        return hook;
    }
    TAILQ_REMOVE(&w->all, hook, link);
    hook_free(hook);
    return NULL;
}

int webhooks_change(struct webhooks *w, struct webhook *hook, const struct webhook_wish *wish,
                    struct err *e)
{
    if (check(wish, e) < 0)
        return -1;
    const struct webhook before = *hook;
    struct webhook unused = before;
    hook->name = xstrdup(before.name);
    hook->url = xstrdup(before.url);
    hook->secret = xstrdup(before.secret);
    apply(hook, wish);
    int status = save(w, e);
    if (status < 0) {
        unused = *hook;
        hook->name = before.name, hook->url = before.url, hook->secret = before.secret;
        hook->types = before.types, hook->enabled = before.enabled;
    }
    free_texts(&unused);
    aim(w, hook);
    return status;
}

int webhooks_remove(struct webhooks *w, struct webhook *hook, struct err *e)
{
    struct webhook *next = TAILQ_NEXT(hook, link);
    TAILQ_REMOVE(&w->all, hook, link);
    if (save(w, e) == 0) {
        log_info("webhook.removed", "id=%s", hook->id);
        hook_free(hook);
        return 0;
    }
    if (next)
        TAILQ_INSERT_BEFORE(next, hook, link);
    else
        TAILQ_INSERT_TAIL(&w->all, hook, link);
    return -1;
}

int webhooks_remove_of(struct webhooks *w, const char *owner, struct err *e)
{
    struct webhook *next;
    for (struct webhook *hook = TAILQ_FIRST(&w->all); hook; hook = next) {
        next = TAILQ_NEXT(hook, link);
        if (is_of(hook, owner) && webhooks_remove(w, hook, e) < 0)
            return -1;
    }
    return 0;
}

// ---- events
void webhooks_send(struct webhooks *w, unsigned type, const char *owner, const char *body,
                   size_t len)
{
    const struct webhook *hook = NULL;
    TAILQ_FOREACH (hook, &w->all, link)
        if (hook->enabled && hook->courier && is_of(hook, owner) && hook->types & 1 << type)
            courier_send(hook->courier, body, len);
}
