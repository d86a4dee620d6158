// SPDX-License-Identifier: Apache-2.0
// The moves of a synchronisation: each side may change at any time. What really was read and
// written is noted in the entries' moves, and nothing is replaced that changed since it was listed.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/copy/archive.h"
#include "sandbox-backend/cli/copy/beneath.h"
#include "sandbox-backend/cli/copy/moving_internal.h"
#include "sandbox-backend/cli/copy/recheck.h"
#include "sandbox-backend/cli/copy/sync_state.h"

#define RANDOM 4 // bytes of a temporary name

static struct recheck recheck_of(const struct moving *t)
{
    return (struct recheck){.remote = t->remote, .path = t->path, .kind = t->kind};
}

static void count_done(struct moving *t, const struct entry *entry)
{
    if (!entry->move->is_done)
        return;
    t->count.files += entry->type == 'f';
    t->count.directories += entry->type == 'd';
    t->count.links += entry->type == 'l';
    t->count.bytes += entry->type == 'f' ? entry->move->from->size : 0;
}

static void count_batch(struct moving *t, const struct batch *b)
{
    for (size_t i = 0; i < b->count; i++)
        count_done(t, b->entries[i]);
    t->bar.done += b->bytes;
    bar_tick(&t->bar);
}

// Return whether the sandbox has something else now than the entry is to replace.
static bool is_replaceable(const struct entry *entry, const struct listing *now)
{
    const struct entry *was = entry->move->replaces;
    if (was && was->type == 'd')
        return true;
    return !sync_state_differs(listing_find(now, entry->path), was);
}

// ---- into the sandbox
//
// The sandbox's versions of conflicts get their other paths right before the host's arrive, and
// back if these do not. What cannot get its path back is printed.
#define ASIDE "{ [ \"$2\" = 0 ] || more | xargs -0 -n 2 mv -f --; }"
#define BACK                                                                                   \
    "[ \"$2\" = 0 ] || more | xargs -0 -n 2 sh -c '[ -e \"$2\" ] || [ -L \"$2\" ] || exit 0\n" \
    "  if [ -e \"$1\" ] || [ -L \"$1\" ]; then printf \"%s\\\\0\" \"$1\"\n"                    \
    "  else mv -- \"$2\" \"$1\"; fi' sh\n"                                                     \
    "exit 1\n"

static void expect(struct recheck *g, const struct entry *entry)
{
    recheck_expect(g, entry->path, entry->move->replaces);
    if (!entry->move->aside)
        return;
    recheck_add(g, entry->path);
    recheck_add(g, entry->move->aside);
}

// Note an entry that has arrived in the sandbox. A tar and touch -d keep whole seconds.
static void note_sent(const struct entry *entry)
{
    struct move *move = entry->move;
    struct entry *from = move->from;
    struct entry to = *from;
    to.nanoseconds = 0;
    move->from = NULL;
    move_note(move, from, &to);
    entry_fini(from);
    free(from);
    move->is_done = true;
    move->is_aside = move->aside != NULL;
}

// Note which versions of the sandbox stayed at their other paths; the names are those of BACK.
static void note_aside(const struct entry *const *entries, size_t count, const struct buf *names)
{
    for (size_t at = 0; at < names->len; at += strlen(names->data + at) + 1)
        for (size_t i = 0; i < count; i++)
            if (str_eq(names->data + at + strlen("./"), entries[i]->path))
                entries[i]->move->is_aside = true;
}

// Keep the entries of a batch that were read.
static void keep_read(struct batch *b)
{
    size_t kept = 0;
    for (size_t i = 0; i < b->count; i++)
        if (b->entries[i]->move->is_read)
            b->entries[kept++] = b->entries[i];
    b->count = kept;
}

// Keep the entries that may replace what is there now. Return whether that are all.
static bool keep_replaceable(struct batch *b, const struct listing *now)
{
    size_t kept = 0;
    for (size_t i = 0; i < b->count; i++)
        if (is_replaceable(b->entries[i], now))
            b->entries[kept++] = b->entries[i];
    bool all = kept == b->count;
    b->count = kept;
    return all;
}

static enum recheck_end unpack_there(struct moving *t, struct batch *b, bool *forces,
                                     const char *tar, struct err *e)
{
    static const char ACTION[] = ASIDE " && tar -xpf \"$1\" && rm -f \"$1\" && exit 0\n" BACK;
    struct recheck g = recheck_of(t);
    struct listing now = {0};
    struct buf out auto_buf = BUF_INIT;
    for (size_t i = 0; i < b->count; i++)
        expect(&g, b->entries[i]);
    const char *args[] = {tar, g.more.len ? "1" : "0", NULL};
    enum recheck_end end = recheck_run(&g, *forces, ACTION, args, &now, &out, e);
    if (end == RECHECK_CHANGED)
        *forces = keep_replaceable(b, &now);
    if (end == RECHECK_FAILED)
        note_aside(b->entries, b->count, &out);
    if (end == RECHECK_FAILED && err_is(e) && e->code == ERR_INVALID)
        err_wrap(e, "the sandbox could not unpack the files (is its disk full?)");
    listing_fini(&now);
    recheck_fini(&g);
    return end;
}

// Each turn leaves out what changed in the meantime, so there are not many.
int moving__send_checked(struct moving *t, const struct batch *b, struct err *e)
{
    struct batch left = *b;
    enum recheck_end end = RECHECK_CHANGED;
    bool forces = false;
    left.entries = xcalloc(b->count + 1, sizeof(struct entry *));
    memcpy(left.entries, b->entries, b->count * sizeof(struct entry *));
    while (end == RECHECK_CHANGED && left.count) {
        char *tar auto_free = moving__upload_tar(t, left.entries, left.count, false, e);
        keep_read(&left);
        end = !tar         ? RECHECK_FAILED
              : left.count ? unpack_there(t, &left, &forces, tar, e)
                           : RECHECK_DONE;
    }
    for (size_t i = 0; end == RECHECK_DONE && i < left.count; i++)
        note_sent(left.entries[i]);
    free(left.entries);
    if (end == RECHECK_FAILED)
        return -1;
    count_batch(t, b);
    return 0;
}

static int place_there(struct moving *t, const struct entry *entry, const char *part, struct err *e)
{
    static const char ACTION[] = "chmod \"$3\" \"$1\" && touch -d \"@$4\" \"$1\" && " ASIDE
                                 " && mv -f -- \"$1\" \"$5\" && exit 0\n" BACK;
    struct recheck g = recheck_of(t);
    struct listing now = {0};
    struct buf out auto_buf = BUF_INIT;
    char *to auto_free = str_printf("./%s", entry->path);
    char *mode auto_free = str_printf("%o", entry->move->from->mode);
    char *time auto_free = str_printf("%lld", (long long)entry->move->from->seconds);
    expect(&g, entry);
    const char *args[] = {part, g.more.len ? "1" : "0", mode, time, to, NULL};
    enum recheck_end end = recheck_run(&g, false, ACTION, args, &now, &out, e);
    if (end == RECHECK_CHANGED && is_replaceable(entry, &now))
        end = recheck_run(&g, true, ACTION, args, &now, &out, e);
    if (end == RECHECK_FAILED)
        note_aside(&entry, 1, &out);
    if (end == RECHECK_DONE)
        note_sent(entry);
    listing_fini(&now);
    recheck_fini(&g);
    return end == RECHECK_FAILED ? -1 : 0;
}

// Upload a file to the path `part`. 1: it changed meanwhile.
static int upload_whole(struct moving *t, const struct entry *entry, const char *part,
                        struct err *e)
{
    struct err why = ERR_INIT;
    struct stat before;
    struct entry now = *entry;
    int fd auto_close = beneath_open(t->root, entry->path, O_RDONLY | O_NONBLOCK, &why);
    if (fd < 0)
        return why.code == ERR_NOT_FOUND ? 1 : err_set(e, why.code, "%s", why.msg);
    if (fstat(fd, &before) < 0)
        return err_sys(e, errno, "read %.200s", entry->path);
    if (!S_ISREG(before.st_mode))
        return 1;
    int result = moving__upload(t, fd, part, &why);
    if (result < 0 && why.code != ERR_CONFLICT)
        return err_set(e, why.code, "%s", why.msg);
    entry_take_stat(&now, &before);
    move_note(entry->move, &now, NULL);
    return result == 0 && entry_is_still(fd, &before) ? 0 : 1;
}

int moving__send_checked_file(struct moving *t, const struct entry *entry, struct err *e)
{
    char *path auto_free = str_printf("%s/%s", t->path, entry->path);
    char *above auto_free = xstrndup(path, (size_t)(str_base(path) - path));
    char *random auto_free = random_hex(RANDOM);
    char *part auto_free = str_printf("%s.cubby-%s.part", above, random);
    int result = upload_whole(t, entry, part, e);
    if (result == 0)
        result = place_there(t, entry, part, e);
    if (!entry->move->is_done)
        moving__remove_part(t, part);
    count_done(t, entry);
    t->bar.done += entry->size;
    return result < 0 ? -1 : 0;
}

// ---- to the host

// Have the sandbox write a tar of what is still there. tar ends with 1 if a file changed while it
// was read; the names are then listed again, and what differs is not `is_read`.
static int pack_there(struct moving *t, const struct batch *b, struct err *e)
{
    static const char ACTION[] =
        "rm -f \"$dir/changed\"\n"
        "head -c $names \"$dir/plan\" | xargs -0 sh -c 'for n; do\n"
        "  if [ -e \"$n\" ] || [ -L \"$n\" ]; then printf \"%s\\0\" \"$n\"; fi; done' sh "
        ">\"$dir/there\" || exit 1\n"
        "[ -s \"$dir/there\" ] || { : >\"$dir/tar\"; exit 0; }\n"
        "xargs -0 sh -c 'tar -cf \"$0/tar\" --no-recursion -- \"$@\" && exit\n"
        "  [ $? = 1 ] && : >\"$0/changed\"' \"$dir\" <\"$dir/there\" || exit 1\n"
        "[ ! -e \"$dir/changed\" ] || { printf $kind; list; }\n"
        "exit 0\n";
    struct recheck g = recheck_of(t);
    struct listing now = {0};
    struct buf out auto_buf = BUF_INIT;
    for (size_t i = 0; i < b->count; i++)
        recheck_name(&g, b->entries[i]->path);
    int result = recheck_run(&g, true, ACTION, NULL, NULL, &out, e) == RECHECK_DONE ? 0 : -1;
    if (result == 0 && out.len)
        result = listing_parse(&now, &out, NULL, e);
    for (size_t i = 0; i < b->count; i++) {
        const struct entry *entry = b->entries[i];
        entry->move->is_read =
            !out.len || !sync_state_differs(listing_find(&now, entry->path), entry);
    }
    listing_fini(&now);
    recheck_fini(&g);
    return result;
}

int moving__fetch_checked(struct moving *t, const struct batch *b, struct err *e)
{
    const struct unpacking u = {
        .root = t->root, .wanted = b->entries, .count = b->count, .keeps_links = t->keeps_links};
    struct err why = ERR_INIT;
    int fd auto_close = fd_open_temp(e);
    if (fd < 0 || pack_there(t, b, e) < 0)
        return -1;
    char *tar auto_free = str_printf("%s/tar", remote_dir(t->remote, e));
    int result = moving__download(t, tar, fd, moving__tar_max(b), &why);
    if (result < 0 && why.code != ERR_TOO_LARGE) // else the files grow
        return err_set(e, why.code, "%s", why.msg);
    if (result == 0 && archive_unpack(&u, fd, e) < 0)
        return -1;
    count_batch(t, b);
    return 0;
}

// Download a file, and compare what the sandbox says of it before and after. 1: it changed.
static int download_whole(struct moving *t, const char *path, struct recheck *g, int fd,
                          struct listing *before, struct err *e)
{
    struct listing after = {0};
    struct err why = ERR_INIT;
    struct stat st;
    if (recheck_look(g, before, e) < 0)
        return -1;
    const struct entry *was = before->count == 1 ? &before->entries[0] : NULL;
    if (!was || was->type != 'f')
        return 1;
    int result = moving__download(t, path, fd, was->size + LISTING_GROWTH_BYTES, &why);
    if (result < 0 && (why.code == ERR_TOO_LARGE || why.code == ERR_NOT_FOUND))
        return 1;
    if (result < 0)
        return err_set(e, why.code, "%s", why.msg);
    if (fstat(fd, &st) < 0)
        return err_sys(e, errno, "write %.200s", was->path);
    result = recheck_look(g, &after, e);
    bool is_same = result == 0 && after.count == 1 && st.st_size == was->size &&
                   !sync_state_differs(&after.entries[0], was);
    listing_fini(&after);
    return result < 0 ? -1 : !is_same;
}

static int place_here(struct moving *t, const struct entry *entry, struct beneath_file *file,
                      const struct entry *from, struct err *e)
{
    struct entry to = *from;
    to.mode = beneath_mode(from->mode);
    if (!beneath_is_unchanged(t->root, entry->path, entry->move->replaces)) {
        beneath_file_drop(file);
        return 0;
    }
    if (beneath_file_end(file, from, e) < 0)
        return -1;
    move_note(entry->move, from, &to);
    entry->move->is_done = true;
    count_done(t, entry);
    return 0;
}

int moving__fetch_checked_file(struct moving *t, const struct entry *entry, struct err *e)
{
    struct beneath_file file;
    struct listing before = {0};
    struct recheck g = recheck_of(t);
    char *path auto_free = str_printf("%s/%s", t->path, entry->path);
    if (beneath_file_begin(t->root, entry->path, &file, e) < 0)
        return -1;
    recheck_name(&g, entry->path);
    int result = download_whole(t, path, &g, file.fd, &before, e);
    if (result == 0)
        result = place_here(t, entry, &file, &before.entries[0], e);
    else
        beneath_file_drop(&file);
    t->bar.done += entry->size;
    listing_fini(&before);
    recheck_fini(&g);
    return result < 0 ? -1 : 0;
}
