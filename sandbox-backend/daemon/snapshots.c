// SPDX-License-Identifier: Apache-2.0
// The snapshots of this home.
#include "sandbox-backend/daemon/snapshots.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"

#define ID_CHARS      "abcdefghijklmnopqrstuvwxyz0123456789"
#define SNAPSHOTS_MAX 10000 // that are read

// ---- one
// Uniform over the alphabet: bytes past its last whole multiple are drawn again.
static void random_id(char out[SNAPSHOT_ID_LEN + 1])
{
    size_t letters = sizeof ID_CHARS - 1;
    size_t at = strlen(SNAPSHOT_ID_PREFIX);
    memcpy(out, SNAPSHOT_ID_PREFIX, at);
    while (at < SNAPSHOT_ID_LEN) {
        uint8_t byte;
        random_bytes(&byte, 1);
        if (byte < 256 / letters * letters)
            out[at++] = ID_CHARS[byte % letters];
    }
    out[at] = '\0';
}

struct snapshot *snapshot_named(const struct snapshots *s, const char *id)
{
    struct snapshot *snap = xcalloc(1, sizeof *snap);
    memcpy(snap->id, id, SNAPSHOT_ID_LEN);
    snap->dir = str_printf("%s/%s", s->dir, snap->id);
    snap->image = str_printf("%s/image", snap->dir);
    return snap;
}

struct snapshot *snapshot_new(const struct snapshots *s)
{
    char id[SNAPSHOT_ID_LEN + 1];
    random_id(id);
    struct snapshot *snap = snapshot_named(s, id);
    snap->created_ns = clock_wall_ns();
    return snap;
}

void snapshot_free(struct snapshot *snap)
{
    if (!snap)
        return;
    json_decref(snap->metadata);
    json_decref(snap->policy);
    free(snap->dir);
    free(snap->image);
    free(snap->name);
    free(snap->owner);
    free(snap->sandbox);
    free(snap->template);
    free(snap->build);
    free(snap->token);
    free(snap);
}

bool snapshots_is_id(const char *text)
{
    size_t prefix = strlen(SNAPSHOT_ID_PREFIX);
    return strlen(text) == SNAPSHOT_ID_LEN && str_starts(text, SNAPSHOT_ID_PREFIX) &&
           strspn(text + prefix, ID_CHARS) == SNAPSHOT_ID_LEN - prefix;
}

char *snapshot_hidden(const struct snapshots *s, const char *what, const char *id)
{
    return str_printf("%s/.%s-%s", s->dir, what, id);
}

// ---- all
static bool is_older(const struct snapshot *a, const struct snapshot *b)
{
    return a->created_ns != b->created_ns ? a->created_ns < b->created_ns
                                          : strcmp(a->id, b->id) < 0;
}

void snapshots_add(struct snapshots *s, struct snapshot *snap)
{
    struct snapshot *at = TAILQ_FIRST(&s->all);
    while (at && is_older(snap, at))
        at = TAILQ_NEXT(at, link);
    if (at)
        TAILQ_INSERT_BEFORE(at, snap, link);
    else
        TAILQ_INSERT_TAIL(&s->all, snap, link);
    s->count++;
}

void snapshots_remove(struct snapshots *s, struct snapshot *snap)
{
    TAILQ_REMOVE(&s->all, snap, link);
    s->count--;
}

static void load_one(struct snapshots *s, const char *name)
{
    struct err e = ERR_INIT;
    char *path auto_free = str_printf("%s/%s", s->dir, name);
    if (name[0] == '.') { // of a daemon that was killed in the middle
        log_info("snapshots.clean", "name=%s", name);
        if (dir_remove(path, &e) < 0)
            log_error("snapshots.clean", "error=\"%s\"", e.msg);
        return;
    }
    struct snapshot *snap = NULL;
    if (!snapshots_is_id(name))
        err_set(&e, ERR_INVALID, "it is not a snapshot");
    else if (s->count >= SNAPSHOTS_MAX)
        err_set(&e, ERR_LIMIT, "there are more than %d", SNAPSHOTS_MAX);
    else
        snap = snapshot_read(s, name, &e);
    if (snap)
        snapshots_add(s, snap);
    else
        log_warn("snapshots.damaged", "%s cannot be used, and is left alone: %s", path, e.msg);
}

static int is_entry(const struct dirent *d)
{
    return strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0;
}

int snapshots_open(struct snapshots *s, const char *home, struct err *e)
{
    *s = (struct snapshots){.dir = home_path(home, "snapshots")};
    TAILQ_INIT(&s->all);
    TAILQ_INIT(&s->making);
    if (dir_make(s->dir, 0700, e) < 0)
        return -1;
    struct dirent **names = NULL;
    int n = scandir(s->dir, &names, is_entry, alphasort);
    for (int i = 0; i < n; i++) {
        load_one(s, names[i]->d_name);
        free(names[i]);
    }
    free(names);
    return 0;
}

void snapshots_fini(struct snapshots *s)
{
    for (struct snapshot *snap = TAILQ_FIRST(&s->all), *next; snap; snap = next) {
        next = TAILQ_NEXT(snap, link);
        snapshots_remove(s, snap);
        snapshot_free(snap);
    }
    free(s->dir);
    s->dir = NULL;
}

// ---- finding
static bool is_seen(const struct snapshot *snap, const char *owner)
{
    return !owner || str_eq(snap->owner, owner);
}

// Without a tag that every name has.
static char *plain_name(const char *wanted)
{
    const char *tag = strchr(wanted, ':');
    bool known = tag && (strcmp(tag, ":default") == 0 || strcmp(tag, ":latest") == 0);
    return known ? xstrndup(wanted, (size_t)(tag - wanted)) : xstrdup(wanted);
}

struct snapshot *snapshots_find(const struct snapshots *s, const char *owner, const char *wanted)
{
    char *name auto_free = plain_name(wanted);
    struct snapshot *snap = NULL;
    TAILQ_FOREACH(snap, &s->all, link)
    {
        if (is_seen(snap, owner) && (strcmp(snap->id, name) == 0 || str_eq(snap->name, name)))
            return snap;
    }
    return NULL;
}

bool snapshots_has_name(const struct snapshots *s, const struct snapshot *snap)
{
    const struct snapshot *other = NULL;
    if (!snap->name)
        return false;
    TAILQ_FOREACH(other, &s->all, link)
    {
        if (str_eq(other->name, snap->name) && str_eq(other->owner, snap->owner))
            return other == snap;
    }
    return false;
}

static size_t add_up(const struct snapshot_list *list, const char *owner, bool all, int64_t *bytes)
{
    size_t count = 0;
    const struct snapshot *snap = NULL;
    TAILQ_FOREACH(snap, list, link)
    {
        if (!all && !str_eq(snap->owner, owner))
            continue;
        count++;
        *bytes += snap->bytes;
    }
    return count;
}

size_t snapshots_count(const struct snapshots *s, const char *owner, bool all, int64_t *bytes)
{
    *bytes = 0;
    return add_up(&s->all, owner, all, bytes) + add_up(&s->making, owner, all, bytes);
}
