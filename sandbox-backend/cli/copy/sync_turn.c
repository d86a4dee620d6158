// SPDX-License-Identifier: Apache-2.0
#include "sandbox-backend/cli/copy/sync_turn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/copy/beneath.h"
#include "sandbox-backend/cli/copy/copy.h"
#include "sandbox-backend/cli/copy/moving.h"
#include "sandbox-backend/cli/copy/remote.h"
#include "sandbox-backend/cli/copy/sync_git.h"
#include "sandbox-backend/cli/copy/sync_rules.h"
#include "sandbox-backend/cli/copy/sync_state.h"

#define PERMISSIONS   0777
#define FEW_DELETIONS 10 // of the sandbox, which --only out never asks about
#define NAMED_MAX     50 // conflicts and skipped names of a result in JSON

enum action { KEEP, NOTE, SEND, FETCH, DELETE_GUEST, DELETE_HOST, CONFLICT, FORGET, SKIP };

struct item {
    const char *path;                 // borrowed
    const struct entry *host, *guest; // borrowed; NULL: not there
    enum action action;
    char *other; // owned; of a conflict: the path that the sandbox's version gets
    bool done;
};

struct turn {
    const struct sync *o;
    struct remote *r;
    int root;
    const char *here; // borrowed; the path of `root`, resolved
    const char *path; // of the sandbox
    const struct sync_rules *ignored;
    struct sync_state state;
    struct listing host, guest;
    struct listing repositories; // sync_git.h
    struct item *items;          // owned
    size_t count;
    struct moving moving;
    int64_t deleted;
    const char *hidden; // borrowed: the last hidden name that was left out, and its path
    int64_t waiting;    // changes that go the other way than this turn
    json_t *conflicts;  // owned; {"path", "kept"} of each
};

// ---- 1. what changed

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

static void note_conflict(struct turn *t, const char *path, const char *kept)
{
    json_array_append_new(t->conflicts,
                          json_pack("{s:o, s:o}", "path", json_lossy_string(path, strlen(path)),
                                    "kept", json_lossy_string(kept, strlen(kept))));
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
    bool is_restored =
        (item->action == SEND && !item->guest) || (item->action == FETCH && !item->host);
    if (was_noted && is_restored)
        note_conflict(t, item->path, item->path);
    if (item->action == CONFLICT) {
        char *random auto_free = random_hex(2);
        item->other = str_printf("%s.sandbox-%s", item->path, random);
        note_conflict(t, item->path, item->other);
    }
}

// Join both listings, which are sorted.
static void make_items(struct turn *t)
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

// A side that lost everything is more likely a mistake than a wish.
static int check_loss(const struct turn *t, struct err *e)
{
    bool host_gone = !t->host.count && t->guest.count;
    bool guest_gone = !t->guest.count && t->host.count;
    if (!t->state.host.count || t->o->forces || (!host_gone && !guest_gone))
        return 0;
    return err_set(e, ERR_PRECONDITION,
                   "all files of %.100s are gone since the last time, so nothing was deleted; "
                   "--force deletes them on the other side, too",
                   host_gone ? t->here : t->o->guest);
}

// With --only out nobody may have looked at what the sandbox did.
static int check_deletions(const struct turn *t, struct err *e)
{
    size_t known = 0;
    size_t deleted = 0;
    for (size_t i = 0; i < t->count; i++) {
        const struct item *item = &t->items[i];
        if (!item->host || item->host->type == 'd' || !listing_find(&t->state.host, item->path))
            continue;
        known++;
        deleted += item->action == DELETE_HOST;
    }
    if (t->o->way != SYNC_OUT || t->o->forces || deleted <= FEW_DELETIONS || deleted * 2 <= known)
        return 0;
    return err_set(e, ERR_PRECONDITION,
                   "%zu of %zu files of %.200s are gone in the sandbox, so nothing was copied or "
                   "deleted; if that is right, a person can run cubby sync --only out --force",
                   deleted, known, t->here);
}

// ---- 2. conflicts
static int rename_conflicts(struct turn *t, struct err *e)
{
    static const char SCRIPT[] = "cd -- \"$1\" && xargs -0 -n 2 mv -f -- <\"$2\"";
    struct buf names auto_buf = BUF_INIT;
    for (size_t i = 0; i < t->count; i++)
        if (t->items[i].action == CONFLICT) {
            buf_add(&names, t->items[i].path, strlen(t->items[i].path) + 1);
            buf_add(&names, t->items[i].other, strlen(t->items[i].other) + 1);
        }
    const char *dir = names.len ? remote_dir(t->r, e) : NULL;
    if (!names.len || !dir)
        return names.len ? -1 : 0;
    char *list auto_free = str_printf("%s/names", dir);
    const char *args[] = {t->path, list, NULL};
    if (remote_upload_bytes(t->r, &names, list, e) < 0)
        return -1;
    return remote_script(t->r, SCRIPT, args, NULL, 0, e);
}

// ---- 3. moving
static int check_size(const struct turn *t, int64_t bytes, struct err *e)
{
    if (!t->o->max_bytes || bytes <= t->o->max_bytes)
        return 0;
    char *all auto_free = bar_bytes(bytes);
    char *most auto_free = bar_bytes(t->o->max_bytes);
    return err_set(e, ERR_LIMIT,
                   "%s would be copied, and at most %s may be (--max-size); leave out more by "
                   "lines in " SYNC_RULES_FILE,
                   all, most);
}

static void pick(struct listing *l, const struct entry *entry, const char *path)
{
    struct entry copy;
    entry_copy(&copy, entry);
    free(copy.path);
    copy.path = xstrdup(path);
    listing_add(l, copy, NULL);
}

static int move_all(struct turn *t, struct err *e)
{
    struct listing send = {0};
    struct listing fetch = {0};
    for (size_t i = 0; i < t->count; i++) {
        const struct item *item = &t->items[i];
        if (item->action == SEND || item->action == CONFLICT)
            pick(&send, item->host, item->path);
        if (item->action == FETCH)
            pick(&fetch, item->guest, item->path);
        if (item->action == CONFLICT)
            pick(&fetch, item->guest, item->other);
    }
    listing_sort(&fetch);
    int64_t bytes = copy_total(&send) + copy_total(&fetch);
    bar_start(&t->moving.bar, !t->o->quiet, bytes);
    int result = check_size(t, bytes, e);
    if (result == 0)
        result = rename_conflicts(t, e);
    if (result == 0 && send.count)
        result = moving_send(&t->moving, &send, 0777, e);
    if (result == 0 && fetch.count)
        result = moving_fetch(&t->moving, &fetch, e);
    listing_fini(&send);
    listing_fini(&fetch);
    for (size_t i = 0; result == 0 && i < t->count; i++)
        if (t->items[i].action != DELETE_GUEST && t->items[i].action != DELETE_HOST)
            t->items[i].done = true;
    return result;
}

// Directories after what is in them: the items are sorted, so from the last to the first.
static int delete_in_guest(struct turn *t, struct err *e)
{
    static const char SCRIPT[] =
        "cd -- \"$1\" && xargs -0 -n 50 sh -c 'for name; do\n"
        "  if [ -d \"$name\" ] && [ ! -L \"$name\" ]; then rmdir -- \"$name\" 2>/dev/null || :\n"
        "  else rm -f -- \"$name\" || exit 1; fi; done' sh <\"$2\"";
    struct buf names auto_buf = BUF_INIT;
    for (size_t i = t->count; i > 0; i--)
        if (t->items[i - 1].action == DELETE_GUEST) {
            buf_adds(&names, "./");
            buf_add(&names, t->items[i - 1].path, strlen(t->items[i - 1].path) + 1);
            t->deleted++;
        }
    const char *dir = names.len ? remote_dir(t->r, e) : NULL;
    if (!names.len || !dir)
        return names.len ? -1 : 0;
    char *list auto_free = str_printf("%s/names", dir);
    const char *args[] = {t->path, list, NULL};
    if (remote_upload_bytes(t->r, &names, list, e) < 0)
        return -1;
    return remote_script(t->r, SCRIPT, args, NULL, 0, e);
}

static bool is_unchanged_here(const struct turn *t, const struct entry *entry)
{
    struct err unused = ERR_INIT;
    struct stat st;
    int fd auto_close = beneath_open(t->root, entry->path, O_PATH, &unused);
    return fd >= 0 && fstat(fd, &st) == 0 && st.st_mtim.tv_sec == entry->seconds &&
           st.st_mtim.tv_nsec == entry->nanoseconds &&
           (entry->type != 'f' || st.st_size == entry->size);
}

static int delete_here(struct turn *t, struct err *e)
{
    for (size_t i = t->count; i > 0; i--) {
        struct item *item = &t->items[i - 1];
        struct err why = ERR_INIT;
        if (item->action != DELETE_HOST)
            continue;
        bool is_dir = item->host->type == 'd';
        if (!is_dir && !is_unchanged_here(t, item->host))
            continue; // the next run sees the change
        if (beneath_remove(t->root, item->path, &why) < 0 && !is_dir)
            return err_set(e, why.code, "%s", why.msg);
        item->done = true;
        t->deleted++;
    }
    return 0;
}

// ---- 4. the next state
static struct entry as_received(const struct entry *from, bool here, bool exact)
{
    struct entry to = *from;
    if (here)
        to.mode = beneath_mode(from->mode);
    if (!exact)
        to.nanoseconds = 0; // a tar has none
    return to;
}

static void note_item(struct sync_state *s, const struct item *i)
{
    struct entry other;
    if (i->action == SEND || i->action == CONFLICT) {
        other = as_received(i->host, false, false);
        sync_state_note(s, i->host, &other);
    } else if (i->action == FETCH) {
        other = as_received(i->guest, true, moving_is_alone(i->guest));
        sync_state_note(s, &other, i->guest);
    } else if (i->host && i->guest) {
        sync_state_note(s, i->host, i->guest);
    }
    if (i->action == CONFLICT) {
        struct entry there = *i->guest;
        there.path = i->other;
        other = as_received(&there, true, moving_is_alone(&there));
        sync_state_note(s, &other, &there);
    }
}

static void note_all(struct turn *t)
{
    for (size_t i = 0; i < t->count; i++) {
        const struct item *item = &t->items[i];
        const struct entry *host = listing_find(&t->state.host, item->path);
        const struct entry *guest = listing_find(&t->state.guest, item->path);
        if (item->action != SKIP && (item->done || item->action == NOTE))
            note_item(&t->state, item);
        else if (host && guest)
            sync_state_note(&t->state, host, guest);
    }
}

// ---- a turn
static int list_both(struct turn *t, struct err *e)
{
    static const char SCRIPT[] = "[ -d \"$1\" ] || mkdir -p -- \"$1\"";
    const char *args[] = {t->path, NULL};
    struct remote_stat there;
    if (listing_of_host(&t->host, t->root, t->ignored, e) < 0 ||
        remote_stat(t->r, t->path, &there, e) < 0)
        return -1;
    char type = there.type;
    free(there.path);
    if (!type && t->state.host.count && !t->o->forces && t->host.count)
        return err_set(e, ERR_PRECONDITION,
                       "the directory %.150s of the sandbox is gone since the last time; --force "
                       "deletes its files here, too",
                       t->path);
    if (!type && remote_script(t->r, SCRIPT, args, NULL, 0, e) < 0)
        return -1;
    return listing_of_sandbox(&t->guest, t->r, t->path, t->ignored, e);
}

static int turn_run(struct turn *t, struct err *e)
{
    if (list_both(t, e) < 0 || check_loss(t, e) < 0 ||
        sync_git_find(&t->repositories, &t->host, &t->guest, e) < 0)
        return -1;
    make_items(t);
    if (check_deletions(t, e) < 0)
        return -1;
    int result = move_all(t, e);
    if (result == 0)
        result = delete_in_guest(t, e);
    for (size_t i = 0; result == 0 && i < t->count; i++)
        t->items[i].done = t->items[i].done || t->items[i].action == DELETE_GUEST;
    if (result == 0)
        result = delete_here(t, e);
    note_all(t);
    struct err why = ERR_INIT;
    if (sync_state_save(&t->state, &why) < 0 && result == 0)
        return err_set(e, why.code, "%s", why.msg);
    return result;
}

// Return the first names of a list, because a sandbox decides how many there are. New reference.
static json_t *first_names(const json_t *list)
{
    json_t *few = json_array();
    for (size_t i = 0; i < json_array_size(list) && i < NAMED_MAX; i++)
        json_array_append(few, json_array_get(list, i));
    return few;
}

static void print_json(const struct turn *t)
{
    const struct moving_count *n = &t->moving.count;
    json_t *all = json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:o, s:I, s:o, s:I}", "files", (json_int_t)n->files, "links",
        (json_int_t)n->links, "bytes", (json_int_t)n->bytes, "deleted", (json_int_t)t->deleted,
        "waiting", (json_int_t)t->waiting, "conflicts", first_names(t->conflicts), "conflictCount",
        (json_int_t)json_array_size(t->conflicts), "skipped", first_names(n->skipped),
        "skippedCount", (json_int_t)json_array_size(n->skipped));
    cli_print_json(all);
    json_decref(all);
}

static void turn_report(const struct turn *t)
{
    const struct moving_count *n = &t->moving.count;
    size_t i = 0;
    const json_t *one = NULL;
    if (t->o->as_json) {
        print_json(t);
        return;
    }
    json_array_foreach (t->conflicts, i, one) {
        const char *path = cli_text(one, "path");
        const char *kept = cli_text(one, "kept");
        char *line auto_free =
            str_eq(path, kept)
                ? str_printf("conflict: %s was deleted on one side and changed on the other; "
                             "it is kept",
                             path)
                : str_printf("conflict: %s changed on both sides; the sandbox's version is %s",
                             path, kept);
        cli_print_line(line);
    }
    if (t->waiting)
        fprintf(stderr,
                "cubby: changes of the other side that were not copied (--only): %lld; cubby sync "
                "without --only copies them\n",
                (long long)t->waiting);
    copy_report(n, false);
}

int sync_turn(const struct sync *o, struct remote *r, int root, const char *path,
              const struct sync_rules *ignored, bool *did_something, struct err *e)
{
    struct turn t = {.o = o, .r = r, .root = root, .path = path, .ignored = ignored};
    char *real auto_free = realpath(o->host, NULL);
    t.here = real;
    moving_init(&t.moving, r, root, path);
    t.moving.keeps_links = true; // links that lead out are not in the plan
    t.conflicts = json_array();
    int result = real ? sync_state_open(&t.state, real, r->id, path, e)
                      : err_sys(e, errno, "%.200s", o->host);
    if (result == 0)
        result = turn_run(&t, e);
    bar_end(&t.moving.bar);
    *did_something = t.moving.count.files || t.moving.count.links || t.deleted ||
                     t.moving.count.directories || json_array_size(t.conflicts);
    if (result == 0 && (!o->watches || *did_something))
        turn_report(&t);
    fflush(stdout);
    for (size_t i = 0; i < t.count; i++)
        free(t.items[i].other);
    free(t.items);
    json_decref(t.conflicts);
    moving_fini(&t.moving);
    sync_state_fini(&t.state);
    listing_fini(&t.host);
    listing_fini(&t.guest);
    listing_fini(&t.repositories);
    return result;
}
