// SPDX-License-Identifier: Apache-2.0
// The action of a turn of cubby sync for each entry: steps 1 and 2 of sync_turn.h.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/copy/beneath.h"
#include "sandbox-backend/cli/copy/sync_git.h"
#include "sandbox-backend/cli/copy/sync_internal.h"

#define PERMISSIONS 0777

// A copy has whole seconds. Two times with parts of a second are of two changes.
static bool is_same_time(const struct entry *a, const struct entry *b)
{
    return a->seconds == b->seconds &&
           (a->nanoseconds == b->nanoseconds || !a->nanoseconds || !b->nanoseconds);
}

static bool is_same_now(const struct entry *a, const struct entry *b)
{
    if (a->type != b->type)
        return false;
    if (a->type == 'l')
        return a->target && b->target && strcmp(a->target, b->target) == 0;
    return a->type == 'd' || (a->type == 'f' && a->size == b->size && is_same_time(a, b));
}

static bool has_same_mode(const struct entry *a, const struct entry *b)
{
    return a->type != 'f' || (a->mode & PERMISSIONS) == (b->mode & PERMISSIONS);
}

static enum action judge(const struct turn *t, const struct item *i)
{
    const struct entry *was_here = listing_find(&t->state.host, i->path);
    const struct entry *was_there = listing_find(&t->state.guest, i->path);
    bool here = sync_state_differs(i->host, was_here);
    bool there = sync_state_differs(i->guest, was_there);
    if (!here && !there)
        return i->host && i->guest ? KEEP : FORGET;
    if (here && there && i->host && i->guest && is_same_now(i->host, i->guest) &&
        (!was_here || !was_there || has_same_mode(i->host, i->guest)))
        return NOTE; // at first they may differ by an umask
    if (!i->host && !i->guest)
        return FORGET;
    if (!i->host) // deleted here, or new there: what changed wins over a deletion
        return there ? FETCH : DELETE_GUEST;
    if (!i->guest)
        return here ? SEND : DELETE_HOST;
    if (here && there)
        return CONFLICT;
    return here ? SEND : FETCH;
}

// Return why an entry is left alone, or NULL. `below` is the last entry that is a directory on one
// side only, or NULL.
static const char *reason_to_skip(const struct item *i, const char *below)
{
    size_t len = below ? strlen(below) : 0;
    const struct entry *guest = i->guest;
    bool fetches = guest && (i->action == FETCH || i->action == CONFLICT);
    if (below && strncmp(i->path, below, len) == 0 && i->path[len] == '/')
        return "its directory is a directory on one side only";
    if ((i->host && i->host->type == 'o') || (guest && guest->type == 'o'))
        return "neither a file, a directory nor a link";
    if (i->host && guest && (i->host->type == 'd') != (guest->type == 'd'))
        return "a directory on one side only; rename one of them";
    if (fetches && guest && guest->type == 'l' &&
        (!guest->target || beneath_leads_out(i->path, guest->target)))
        return "a symbolic link of the sandbox that leads out of the directory";
    return NULL;
}

// Skip what the sandbox made or changed in a bare repository. `told` is the last one that was
// named.
static bool skip_repository(struct turn *t, struct item *item, const char **told)
{
    if (item->action != FETCH && item->action != CONFLICT)
        return false;
    const char *top = sync_git_repository(&t->repositories, item->path);
    if (!top)
        return false;
    if (top != *told)
        moving_skip(&t->moving, *top ? top : ".",
                    "a git repository without .git: git here would run what the sandbox writes "
                    "into its settings, so its changes are not taken");
    *told = top;
    item->action = SKIP;
    return true;
}

// Return the length of a path up to the end of its first name that begins with '.'; 0: it has none.
static size_t hidden_length(const char *path)
{
    for (const char *at = path; at; at = strchr(at, '/')) {
        at += *at == '/';
        if (*at == '.')
            return (size_t)(at - path) + strcspn(at, "/");
    }
    return 0;
}

// Skip changes of the sandbox below hidden names, which programs of the host may run: .envrc,
// .vscode. Each such name is told once.
static bool skip_hidden(struct turn *t, struct item *item)
{
    size_t len = t->o->guards_hidden ? hidden_length(item->path) : 0;
    if (!len || (item->action != FETCH && item->action != CONFLICT && item->action != DELETE_HOST))
        return false;
    bool is_told =
        t->hidden && strncmp(t->hidden, item->path, len) == 0 && hidden_length(t->hidden) == len;
    char *name auto_free = xstrndup(item->path, len);
    if (!is_told)
        moving_skip(&t->moving, name, "its name begins with '.', and programs here may run it");
    t->hidden = item->path;
    item->action = SKIP;
    return true;
}

// Skip what goes the other way than the turn does.
static bool skip_other_way(struct turn *t, struct item *item)
{
    enum action a = item->action;
    bool in = a == SEND || a == DELETE_GUEST;
    bool out = a == FETCH || a == DELETE_HOST;
    if (t->o->way == SYNC_IN && a == CONFLICT)
        moving_skip(&t->moving, item->path, "changed on both sides; bring the sandbox's out first");
    else if ((t->o->way != SYNC_IN || !out) && (t->o->way != SYNC_OUT || !in))
        return false;
    t->waiting++;
    item->action = SKIP;
    return true;
}

static void add_item(struct turn *t, const char **below, const char **told, const struct item *from)
{
    struct item *item = &t->items[t->count++];
    *item = *from;
    item->action = judge(t, item);
    const char *reason = reason_to_skip(item, *below);
    if (reason) {
        moving_skip(&t->moving, item->path, reason);
        item->action = SKIP;
        if (item->host && item->guest && item->host->type != item->guest->type)
            *below = item->path;
        return;
    }
    if (skip_repository(t, item, told) || skip_other_way(t, item) || skip_hidden(t, item))
        return;
    bool was_noted = listing_find(&t->state.host, item->path) != NULL;
    item->is_restored = was_noted && ((item->action == SEND && !item->guest) ||
                                      (item->action == FETCH && !item->host));
    if (item->action == CONFLICT) {
        char *random auto_free = random_hex(2);
        item->other = str_printf("%s.sandbox-%s", item->path, random);
    }
}

// Join both listings, which are sorted.
void sync__make_items(struct turn *t)
{
    size_t h = 0;
    size_t g = 0;
    const char *below = NULL;
    const char *told = NULL;
    t->items = xcalloc(t->host.count + t->guest.count + 1, sizeof *t->items);
    for (;;) {
        const struct entry *here = h < t->host.count ? &t->host.entries[h] : NULL;
        const struct entry *there = g < t->guest.count ? &t->guest.entries[g] : NULL;
        if (!here && !there)
            return;
        int order = !here ? 1 : !there ? -1 : strcmp(here->path, there->path);
        const struct entry *first = order <= 0 ? here : there;
        if (!first)
            break;
        const struct item item = {.path = first->path,
                                  .host = order <= 0 ? here : NULL,
                                  .guest = order >= 0 ? there : NULL};
        h += order <= 0;
        g += order >= 0;
        add_item(t, &below, &told, &item);
    }
}
