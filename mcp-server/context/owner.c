// SPDX-License-Identifier: Apache-2.0
// Decide whether a caller may use a sandbox.
//
// Positive answers are remembered in an array of OWNER_KNOWN_MAX keys, with an open hash table of
// twice as many elements. When the array is full, its older half is forgotten and the table is
// rebuilt, which is simpler than removing single keys from an open table.
#include "mcp-server/context/owner.h"

#include <stdint.h>
#include <string.h>

#include "mcp-server/context/context.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define TABLE_SIZE ((size_t)(2 * OWNER_KNOWN_MAX)) // a power of two

// ---- 1. what is remembered

static size_t hash_of(const char *key)
{
    uint64_t h = 1469598103934665603U; // FNV-1a
    for (; *key; key++)
        h = (h ^ (unsigned char)*key) * 1099511628211U;
    return (size_t)(h ^ (h >> 32)) & (TABLE_SIZE - 1);
}

// Return the key's element of the table, or the free element where it belongs.
static unsigned short *find(const struct owner_known *k, const char *key)
{
    size_t at = hash_of(key);
    while (k->table[at] && !str_eq(k->keys[k->table[at] - 1], key))
        at = (at + 1) & (TABLE_SIZE - 1);
    return &k->table[at];
}

static void forget_older_half(struct owner_known *k)
{
    size_t half = OWNER_KNOWN_MAX / 2;
    for (size_t i = 0; i < half; i++)
        free(k->keys[i]);
    memmove(k->keys, k->keys + half, half * sizeof *k->keys);
    memset(k->table, 0, TABLE_SIZE * sizeof *k->table);
    k->count = half;
    for (size_t i = 0; i < half; i++)
        *find(k, k->keys[i]) = (unsigned short)(i + 1);
}

static void remember(struct owner_known *k, const char *key)
{
    if (!k->keys) {
        k->keys = xcalloc(OWNER_KNOWN_MAX, sizeof *k->keys);
        k->table = xcalloc(TABLE_SIZE, sizeof *k->table);
    }
    if (*find(k, key))
        return;
    if (k->count == OWNER_KNOWN_MAX)
        forget_older_half(k);
    k->keys[k->count++] = xstrdup(key);
    *find(k, key) = (unsigned short)k->count;
}

void owner_known_fini(struct owner_known *k)
{
    for (size_t i = 0; i < k->count; i++)
        free(k->keys[i]);
    free(k->keys);
    free(k->table);
    *k = (struct owner_known){0};
}

static char *key_of(const char *id, const char *owner)
{
    return str_printf("%s %s", id, owner ? owner : "");
}

// ---- 2. whose it is

// Over stdio everything belongs to the user, who could use the backend directly.
static bool is_everybodys(const struct context *cx, const char *owner)
{
    return !cx->config->http && !owner;
}

static bool says_owner(const json_t *info, const char *owner)
{
    const json_t *its = json_object_get(json_object_get(info, "metadata"), CALLER_METADATA);
    return owner ? str_eq(json_string_value(its), owner) : its == NULL;
}

bool owner_is_known(const struct context *cx, const struct caller *caller, const char *id)
{
    if (is_everybodys(cx, caller->owner))
        return true;
    char *key auto_free = key_of(id, caller->owner);
    return cx->known.keys && *find(&cx->known, key);
}

void owner_note(struct context *cx, const struct caller *caller, const char *id)
{
    if (is_everybodys(cx, caller->owner))
        return;
    char *key auto_free = key_of(id, caller->owner);
    remember(&cx->known, key);
}

bool owner_is_of(const struct context *cx, const struct caller *caller, const json_t *info)
{
    return is_everybodys(cx, caller->owner) || says_owner(info, caller->owner);
}

json_t *owner_metadata(const struct caller *caller)
{
    return caller->owner ? json_pack("{s:s}", CALLER_METADATA, caller->owner) : NULL;
}

// ---- 3. asking

struct check {
    struct context *context;
    char *id, *owner; // owned; owner may be NULL
    client_done_cb cb;
    void *ctx;
};

static void complete(struct check *k, const struct err *e)
{
    const struct check done = *k;
    free(k->id);
    free(k->owner);
    free(k);
    done.cb(e, done.ctx);
}

static void on_info(const json_t *info, const struct err *e, void *ctx)
{
    struct check *k = ctx;
    struct err unknown = ERR_INIT;
    err_set(&unknown, ERR_NOT_FOUND, "there is no sandbox %.80s", k->id);
    if (!e && says_owner(info, k->owner)) {
        char *key auto_free = key_of(k->id, k->owner);
        remember(&k->context->known, key);
        complete(k, NULL);
    } else if (!e || e->code == ERR_NOT_FOUND || e->code == ERR_INVALID) {
        complete(k, &unknown);
    } else if (e->code == ERR_GONE && k->owner) { // its owner is unknown now
        complete(k, &unknown);
    } else {
        complete(k, e);
    }
}

struct client_op *owner_check(struct context *cx, const struct caller *caller, const char *id,
                              client_done_cb cb, void *ctx, struct err *e)
{
    struct client *client = context_client(cx, e);
    if (!client)
        return NULL;
    struct check *k = xmalloc(sizeof *k);
    *k = (struct check){
        .context = cx,
        .id = xstrdup(id),
        .owner = caller->owner ? xstrdup(caller->owner) : NULL,
        .cb = cb,
        .ctx = ctx,
    };
    return client_get(client, id, on_info, k);
}
