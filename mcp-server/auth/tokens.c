// SPDX-License-Identifier: Apache-2.0
// The bearer tokens in force.
#include "mcp-server/auth/tokens.h"

#include <stdlib.h>

#include "mcp-server/auth/token_file.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/file_stamp.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"

#define LOOK_MS 1000

struct tokens {
    char *path; // owned
    int64_t max_sandboxes, calls_per_minute;
    struct file_stamp stamp; // of what was read last, good or not
    int64_t looked_ms;
    struct token_list list;
    struct caller **callers; // owned, each held; one a token
};

static struct caller *find_by_name(const struct tokens *t, const char *name)
{
    for (int i = 0; i < t->list.count; i++)
        if (str_eq(t->list.items[i].name, name))
            return t->callers[i];
    return NULL;
}

// A token that keeps its name keeps its caller, with what that has used of its rate.
static struct caller *caller_of(const struct tokens *t, const struct token *token, int64_t now_ms)
{
    int64_t sandboxes = token->max_sandboxes < 0 ? t->max_sandboxes : token->max_sandboxes;
    int64_t calls = token->calls_per_minute < 0 ? t->calls_per_minute : token->calls_per_minute;
    struct caller *old = find_by_name(t, token->name);
    if (old) {
        old->max_sandboxes = sandboxes;
        caller_set_rate(old, calls, now_ms);
        return caller_hold(old);
    }
    char *owner auto_free = str_printf("token:%s", token->name);
    struct caller *made = caller_new(owner, sandboxes);
    caller_set_rate(made, calls, now_ms);
    return made;
}

static void drop_callers(struct tokens *t)
{
    for (int i = 0; i < t->list.count; i++)
        caller_release(t->callers[i]);
    free(t->callers);
    t->callers = NULL;
    token_list_fini(&t->list);
}

static void revoke_expired(struct tokens *t)
{
    int64_t now_ns = clock_wall_ns();
    for (int i = 0; i < t->list.count; i++)
        t->callers[i]->revoked = t->list.items[i].expires_ns <= now_ns;
}

// Takes the list.
static void put_in_force(struct tokens *t, struct token_list list)
{
    int64_t now_ms = clock_mono_ms();
    struct caller **callers = xcalloc((size_t)list.count + 1, sizeof(struct caller *));
    for (int i = 0; i < list.count; i++)
        callers[i] = caller_of(t, &list.items[i], now_ms);
    for (int i = 0; i < t->list.count; i++)
        t->callers[i]->revoked = true;
    drop_callers(t);
    t->list = list;
    t->callers = callers;
    revoke_expired(t); // the others of the list are good, again too
}

static int load(struct tokens *t, struct err *e)
{
    struct token_list list;
    // Before reading: a change in between is then seen at the next look.
    file_stamp_get(t->path, &t->stamp);
    if (token_file_read(t->path, &list, e) < 0)
        return -1;
    put_in_force(t, list);
    return 0;
}

struct tokens *tokens_new(const char *path, int64_t max_sandboxes, int64_t calls_per_minute,
                          struct err *e)
{
    struct tokens *t = xcalloc(1, sizeof *t);
    t->path = xstrdup(path);
    t->max_sandboxes = max_sandboxes;
    t->calls_per_minute = calls_per_minute;
    t->looked_ms = clock_mono_ms();
    if (load(t, e) == 0)
        return t;
    tokens_free(t);
    return NULL;
}

void tokens_free(struct tokens *t)
{
    if (!t)
        return;
    drop_callers(t);
    free(t->path);
    free(t);
}

static void look_at_file(struct tokens *t)
{
    struct file_stamp stamp;
    file_stamp_get(t->path, &stamp);
    if (file_stamp_equal(&stamp, &t->stamp))
        return;
    struct err e = ERR_INIT;
    if (load(t, &e) < 0)
        log_error("tokens.unreadable", "error=\"%s\" kept=%d", e.msg, t->list.count);
    else
        log_info("tokens.read", "count=%d", t->list.count);
}

void tokens_refresh(struct tokens *t, int64_t now_ms)
{
    if (now_ms - t->looked_ms < LOOK_MS)
        return;
    t->looked_ms = now_ms;
    look_at_file(t);
    revoke_expired(t);
}

struct caller *tokens_find(struct tokens *t, const struct sha256 *digest, int64_t now_ms,
                           int64_t *until_ns)
{
    int found = -1;
    tokens_refresh(t, now_ms);
    *until_ns = INT64_MAX;
    for (int i = 0; i < t->list.count; i++) // all of them: the time does not tell which it was
        if (sha256_equal(&t->list.items[i].digest, digest))
            found = i;
    if (found < 0)
        return NULL;
    *until_ns = t->list.items[found].expires_ns;
    return *until_ns <= clock_wall_ns() ? NULL : t->callers[found];
}
