// SPDX-License-Identifier: Apache-2.0
// Removes what belongs to the name of an API key, and remembers it in keys-removed.json.
#include "sandbox-backend/daemon/api/key_belongings.h"

#include <stdlib.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/json_fields.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/http/api_keys.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/log/log.h"

#define FORMAT         1
#define FILE_BYTES_MAX (1 << 20)
#define DONE_MAX       (2 * TOKENS_MAX) // names that are remembered
#define LOOK_EVERY_MS  3000

// ---- belongings
bool key_belongings_exist(const struct store *store, const char *name)
{
    const struct stored_secret *secret;
    const struct webhook *hook;
    TAILQ_FOREACH (secret, &store->stored.all, link)
        if (str_eq(secret->owner, name))
            return true;
    TAILQ_FOREACH (hook, &store->events.webhooks.all, link)
        if (str_eq(hook->owner, name))
            return true;
    return events_has_log_of(&store->events, name);
}

int key_belongings_remove(struct store *store, const char *name, struct err *e)
{
    if (secret_store_remove_of(&store->stored, name, e) < 0 ||
        webhooks_remove_of(&store->events.webhooks, name, e) < 0)
        return -1;
    return events_remove_of(&store->events, name, e);
}

// ---- the file
static bool time_of(const json_t *done, const char *name, int64_t *at_ns)
{
    const char *text = json_string_value(json_object_get(done, name));
    return text && clock_parse_rfc3339(text, at_ns);
}

static int check_file(const json_t *file, const char *path, struct err *e)
{
    json_t *done = json_object_get(file, "removed"), *at;
    const char *name;
    int64_t unused;
    bool ok = json_integer_value(json_object_get(file, "format")) == FORMAT && json_is_object(done);
    json_object_foreach (ok ? done : NULL, name, at)
        ok = ok && time_of(done, name, &unused);
    if (ok)
        return 0;
    return err_set(e, ERR_INVALID,
                   "%s is damaged or has an unsupported format; without it, the daemon removes "
                   "again what belongs to the names in \"removed\" of the keys file",
                   path);
}

static int read_file(struct key_belongings *b, struct err *e)
{
    b->done = json_object();
    if (!file_exists(b->path))
        return 0;
    json_t *file = json_file_read(b->path, FILE_BYTES_MAX, e);
    int rc = file ? check_file(file, b->path, e) : -1;
    if (rc == 0) {
        json_decref(b->done);
        b->done = json_incref(json_object_get(file, "removed"));
    }
    json_decref(file);
    return rc;
}

// Forget the oldest removals that the keys file does not have. One that it has would become due.
static void drop_surplus(json_t *done, const struct token_list *keys)
{
    while (json_object_size(done) > DONE_MAX) {
        const char *name, *oldest = NULL;
        int64_t first = INT64_MAX, at_ns;
        json_t *at;
        json_object_foreach (done, name, at) {
            if (time_of(done, name, &at_ns) && at_ns < first && !token_list_removal(keys, name)) {
                first = at_ns;
                oldest = name;
            }
        }
        if (!oldest)
            return;
        json_object_del(done, oldest);
    }
}

// Write `done` and remember it. It is taken.
static int remember(struct key_belongings *b, json_t *done, struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    drop_surplus(done, &b->keys->keys.list);
    json_t *file = json_pack("{s:i, s:O}", "format", FORMAT, "removed", done);
    json_to_buf(&text, file);
    json_decref(file);
    if (file_write_atomic(b->path, text.data, text.len, 0600, e) < 0) {
        json_decref(done);
        return -1;
    }
    json_decref(b->done);
    b->done = done;
    return 0;
}

// ---- carrying out
// A remembered time that has not come yet was a mistake: after it, each other time is a later one.
static bool is_due(const struct key_belongings *b, const struct token_removal *removal)
{
    int64_t at_ns;
    if (!time_of(b->done, removal->name, &at_ns))
        return true;
    return at_ns < removal->at_ns || (at_ns > clock_wall_ns() && at_ns != removal->at_ns);
}

static bool carry_out(struct key_belongings *b, const char *name)
{
    struct err e = ERR_INIT;
    bool exist = key_belongings_exist(b->store, name);
    bool ok = key_belongings_remove(b->store, name, &e) == 0;
    if (!ok)
        log_error("key.not_cleared", "name=%s error=\"%s\"", name, e.msg);
    else if (exist)
        log_info("key.cleared", "name=%s", name);
    return ok;
}

// The removals that succeed are remembered by one write.
static void carry_out_due(struct key_belongings *b)
{
    const struct token_list *keys = &b->keys->keys.list;
    struct err e = ERR_INIT;
    json_t *done = NULL;
    b->is_behind = false;
    for (int i = 0; i < keys->removed_count; i++) {
        const struct token_removal *removal = &keys->removed[i];
        if (!is_due(b, removal))
            continue;
        if (!carry_out(b, removal->name)) {
            b->is_behind = true;
            continue;
        }
        char at[CLOCK_RFC3339_BYTES];
        clock_rfc3339(at, removal->at_ns);
        done = done ? done : json_deep_copy(b->done);
        json_object_set_new(done, removal->name, json_string(at));
    }
    if (done && remember(b, done, &e) < 0) {
        b->is_behind = true;
        log_error("key.not_remembered", "error=\"%s\"", e.msg);
    }
}

static void on_read(void *ctx)
{
    carry_out_due(ctx);
}

static bool is_held(const char *name, void *ctx)
{
    const struct key_belongings *b = ctx;
    const struct token_removal *removal =
        b->is_behind ? token_list_removal(&b->keys->keys.list, name) : NULL;
    return removal && is_due(b, removal);
}

static void on_look(struct deadline *d)
{
    struct key_belongings *b = container_of(d, struct key_belongings, look);
    b->keys->is_new = b->keys->is_new || b->is_behind; // what failed is tried again
    api_keys_look(b->keys);
    deadline_arm(&b->look, LOOK_EVERY_MS);
}

// ---- its life
int key_belongings_open(struct key_belongings *b, struct store *store, struct api_keys *keys,
                        struct err *e)
{
    *b = (struct key_belongings){
        .store = store, .keys = keys, .path = home_path(store->home, "keys-removed.json")};
    deadline_init(&b->look, store->loop, on_look);
    if (read_file(b, e) < 0)
        return -1;
    keys->watch = (struct api_keys_watch){on_read, is_held, b};
    carry_out_due(b);
    return 0;
}

void key_belongings_follow(struct key_belongings *b)
{
    deadline_arm(&b->look, LOOK_EVERY_MS);
}

void key_belongings_close(struct key_belongings *b)
{
    deadline_close(&b->look, NULL);
}

void key_belongings_fini(struct key_belongings *b)
{
    free(b->path);
    json_decref(b->done);
}
