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
#include "sandbox-backend/cli/copy/recheck.h"
#include "sandbox-backend/cli/copy/remote.h"
#include "sandbox-backend/cli/copy/sync_git.h"
#include "sandbox-backend/cli/copy/sync_internal.h"
#include "sandbox-backend/cli/copy/sync_rules.h"
#include "sandbox-backend/cli/copy/sync_state.h"

#define FEW_DELETIONS 10 // of the sandbox, which --only out never asks about
#define NAMED_MAX     50 // conflicts and skipped names of a result in JSON

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

static void pick(struct listing *l, const struct entry *entry, const char *path, struct move *move)
{
    struct entry copy;
    entry_copy(&copy, entry);
    free(copy.path);
    copy.path = xstrdup(path);
    copy.move = move;
    listing_add(l, copy, NULL);
}

static void pick_sent(struct turn *t, struct listing *send)
{
    for (size_t i = 0; i < t->count; i++) {
        struct item *item = &t->items[i];
        if (item->action != SEND && item->action != CONFLICT)
            continue;
        item->move.replaces = item->guest;
        item->move.aside = item->other;
        pick(send, item->host, item->path, &item->move);
    }
}

// The sandbox's version of a conflict can be fetched only when it has its other path.
static void pick_fetched(struct turn *t, struct listing *fetch, bool is_sent)
{
    for (size_t i = 0; i < t->count; i++) {
        struct item *item = &t->items[i];
        if (item->action == FETCH) {
            item->move.replaces = item->host;
            pick(fetch, item->guest, item->path, &item->move);
        }
        if (item->action == CONFLICT && (!is_sent || item->move.is_done))
            pick(fetch, item->guest, item->other, &item->other_move);
    }
    listing_sort(fetch);
}

static void note_changing(struct turn *t, const char *path)
{
    t->changing++;
    moving_skip(&t->moving, path, "it changes while it is copied; the next cubby sync copies it");
}

// Mark what has arrived. Unless the turn failed, the others changed while they were copied.
static void take_moves(struct turn *t, bool failed)
{
    for (size_t i = 0; i < t->count; i++) {
        struct item *item = &t->items[i];
        bool is_copied = item->action == SEND || item->action == FETCH || item->action == CONFLICT;
        if (!is_copied && item->action != DELETE_GUEST && item->action != DELETE_HOST)
            item->done = !failed;
        if (!is_copied)
            continue;
        item->done = item->move.is_done;
        if (!failed && !item->done)
            note_changing(t, item->path);
        else if (!failed && item->action == CONFLICT && !item->other_move.is_done)
            note_changing(t, item->other);
    }
}

static int move_all(struct turn *t, struct err *e)
{
    struct listing send = {0};
    struct listing fetch = {0};
    t->moving.kind = t->guest.kind;
    pick_sent(t, &send);
    pick_fetched(t, &fetch, false);
    int64_t bytes = copy_total(&send) + copy_total(&fetch);
    bar_start(&t->moving.bar, !t->o->quiet, bytes);
    int result = check_size(t, bytes, e);
    if (result == 0 && send.count)
        result = moving_send(&t->moving, &send, 0777, e);
    listing_fini(&fetch);
    pick_fetched(t, &fetch, true);
    if (result == 0 && fetch.count)
        result = moving_fetch(&t->moving, &fetch, e);
    take_moves(t, result < 0);
    listing_fini(&send);
    listing_fini(&fetch);
    return result;
}

// Directories after what is in them: the items are sorted, so from the last to the first.
static size_t expect_deleted(struct turn *t, struct recheck *g)
{
    size_t count = 0;
    for (size_t i = t->count; i > 0; i--) {
        const struct item *item = &t->items[i - 1];
        if (item->action != DELETE_GUEST)
            continue;
        recheck_expect(g, item->path, item->guest);
        recheck_add(g, item->path);
        count++;
    }
    return count;
}

// Keep what changed in the sandbox. Return whether that is nothing.
static bool keep_changed(struct turn *t, const struct listing *now)
{
    bool is_none = true;
    for (size_t i = 0; i < t->count; i++) {
        struct item *item = &t->items[i];
        if (item->action != DELETE_GUEST || item->guest->type == 'd' ||
            !sync_state_differs(listing_find(now, item->path), item->guest))
            continue;
        if (listing_find(now, item->path))
            note_changing(t, item->path);
        item->action = SKIP; // the next run sees the change
        is_none = false;
    }
    return is_none;
}

static int delete_in_guest(struct turn *t, struct err *e)
{
    static const char ACTION[] =
        "more | xargs -0 -n 50 sh -c 'for name; do\n"
        "  if [ -d \"$name\" ] && [ ! -L \"$name\" ]; then rmdir -- \"$name\" 2>/dev/null || :\n"
        "  else rm -f -- \"$name\" || exit 1; fi; done' sh\n";
    enum recheck_end end = RECHECK_CHANGED;
    bool forces = false;
    while (end == RECHECK_CHANGED) {
        struct recheck g = {.remote = t->r, .path = t->path, .kind = t->guest.kind};
        struct listing now = {0};
        size_t count = expect_deleted(t, &g);
        end = count ? recheck_run(&g, forces, ACTION, NULL, &now, NULL, e) : RECHECK_DONE;
        if (end == RECHECK_DONE)
            t->deleted += (int64_t)count;
        if (end == RECHECK_CHANGED)
            forces = keep_changed(t, &now);
        listing_fini(&now);
        recheck_fini(&g);
    }
    return end == RECHECK_FAILED ? -1 : 0;
}

static int delete_here(struct turn *t, struct err *e)
{
    for (size_t i = t->count; i > 0; i--) {
        struct item *item = &t->items[i - 1];
        struct err why = ERR_INIT;
        if (item->action != DELETE_HOST)
            continue;
        bool is_dir = item->host->type == 'd';
        if (!is_dir && !beneath_is_unchanged(t->root, item->path, item->host)) {
            if (!beneath_is_unchanged(t->root, item->path, NULL))
                note_changing(t, item->path);
            continue; // the next run sees the change
        }
        if (beneath_remove(t->root, item->path, &why) < 0 && !is_dir)
            return err_set(e, why.code, "%s", why.msg);
        item->done = true;
        t->deleted++;
    }
    return 0;
}

// ---- 4. the next state
static void note_item(struct sync_state *s, const struct item *i)
{
    const struct move *move = &i->move;
    if (i->action == SEND || i->action == CONFLICT)
        sync_state_note(s, move->from, move->to);
    else if (i->action == FETCH)
        sync_state_note(s, move->to, move->from);
    else if (i->host && i->guest)
        sync_state_note(s, i->host, i->guest);
    if (i->action == CONFLICT && i->other_move.is_done)
        sync_state_note(s, i->other_move.to, i->other_move.from);
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
    sync__make_items(t);
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

static void note_conflict(struct turn *t, const char *path, const char *kept)
{
    json_array_append_new(t->conflicts,
                          json_pack("{s:o, s:o}", "path", json_lossy_string(path, strlen(path)),
                                    "kept", json_lossy_string(kept, strlen(kept))));
}

// Note the conflicts of which something is to be seen, also after a failure.
static void note_conflicts(struct turn *t)
{
    for (size_t i = 0; i < t->count; i++) {
        const struct item *item = &t->items[i];
        if (item->is_restored && item->done)
            note_conflict(t, item->path, item->path);
        if (item->action == CONFLICT && (item->done || item->move.is_aside))
            note_conflict(t, item->path, item->other);
    }
}

// Return the first names of a list, because a sandbox decides how many there are. New reference.
static json_t *first_names(const json_t *list)
{
    json_t *few = json_array();
    for (size_t i = 0; i < json_array_size(list) && i < NAMED_MAX; i++)
        json_array_append(few, json_array_get(list, i));
    return few;
}

static void print_json(const struct turn *t, const struct err *e)
{
    const struct moving_count *n = &t->moving.count;
    json_t *all = json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:o, s:I, s:o, s:I}", "files", (json_int_t)n->files, "links",
        (json_int_t)n->links, "bytes", (json_int_t)n->bytes, "deleted", (json_int_t)t->deleted,
        "waiting", (json_int_t)t->waiting, "conflicts", first_names(t->conflicts), "conflictCount",
        (json_int_t)json_array_size(t->conflicts), "skipped", first_names(n->skipped),
        "skippedCount", (json_int_t)json_array_size(n->skipped));
    json_object_set_new(all, "changingCount", json_integer(t->changing));
    if (e)
        json_object_set_new(all, "error", json_lossy_string(e->msg, strlen(e->msg)));
    cli_print_json(all);
    json_decref(all);
}

// `e` is the reason of a failure, or NULL.
static void turn_report(const struct turn *t, const struct err *e)
{
    const struct moving_count *n = &t->moving.count;
    size_t i = 0;
    const json_t *one = NULL;
    if (t->o->as_json) {
        print_json(t, e);
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

static void turn_fini(struct turn *t)
{
    for (size_t i = 0; i < t->count; i++) {
        free(t->items[i].other);
        move_fini(&t->items[i].move);
        move_fini(&t->items[i].other_move);
    }
    free(t->items);
    json_decref(t->conflicts);
    moving_fini(&t->moving);
    sync_state_fini(&t->state);
    listing_fini(&t->host);
    listing_fini(&t->guest);
    listing_fini(&t->repositories);
}

int sync_turn(const struct sync *o, struct remote *r, int root, const char *path,
              const struct sync_rules *ignored, bool *is_changing, struct err *e)
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
    note_conflicts(&t);
    *is_changing = t.changing > 0;
    bool did_something = t.moving.count.files || t.moving.count.links || t.deleted ||
                         t.moving.count.directories || json_array_size(t.conflicts);
    if (result == 0 ? !o->watches || did_something : json_array_size(t.conflicts) > 0)
        turn_report(&t, result == 0 ? NULL : e);
    fflush(stdout);
    turn_fini(&t);
    return result;
}
