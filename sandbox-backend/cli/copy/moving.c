// SPDX-License-Identifier: Apache-2.0
#include "sandbox-backend/cli/copy/moving.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/copy/archive.h"
#include "sandbox-backend/cli/copy/beneath.h"
#include "sandbox-backend/cli/copy/moving_internal.h"

#define RANDOM      4         // bytes of a temporary name
#define SLACK_BYTES (1 << 20) // what a tar may have beyond its files
#define ENTRY_BYTES 8192      // of a tar for each entry: headers, long names, padding
#define OWN_ACCESS  0700

void moving_init(struct moving *t, struct remote *r, int root, const char *path)
{
    *t = (struct moving){.remote = r, .root = root, .path = path};
    t->count.skipped = json_array();
    t->bar.fd = -1;
    r->tick = bar_tick;
    r->ctx = &t->bar;
}

void moving_fini(struct moving *t)
{
    bar_end(&t->bar);
    json_decref(t->count.skipped);
    t->remote->tick = NULL;
}

void moving_skip(struct moving *t, const char *path, const char *reason)
{
    json_array_append_new(
        t->count.skipped,
        json_pack("{s:o, s:s}", "path", json_lossy_string(path, strlen(path)), "reason", reason));
}

static void on_skip(const char *path, void *ctx)
{
    struct moving *t = ctx;
    t->count.links--;
    moving_skip(t, path, "a symbolic link that leads out of the directory");
}

// ---- batches
static void batch_clear(struct batch *b)
{
    b->count = b->names = 0;
    b->bytes = 0;
}

static bool has_room(const struct batch *b, const struct entry *entry)
{
    return !b->count ||
           (b->count < MOVING_BATCH_COUNT && b->names + strlen(entry->path) < MOVING_NAMES_BYTES &&
            b->bytes + entry->size <= MOVING_BATCH_BYTES);
}

static void batch_add(struct batch *b, const struct entry *entry)
{
    if (!b->entries)
        b->entries = xcalloc(MOVING_BATCH_COUNT, sizeof(struct entry *));
    b->entries[b->count++] = entry;
    b->names += strlen(entry->path) + sizeof "./";
    b->bytes += entry->size;
}

// Names that are not UTF-8 travel in tars only: the requests of a transfer are JSON and URLs.
bool moving_is_alone(const struct entry *entry)
{
    return entry->type == 'f' && entry->size >= MOVING_LARGE_BYTES &&
           utf8_is_valid(entry->path, strlen(entry->path));
}

static void note_batch(struct moving *t, const struct batch *b)
{
    for (size_t i = 0; i < b->count; i++) {
        t->count.files += b->entries[i]->type == 'f';
        t->count.directories += b->entries[i]->type == 'd';
        t->count.links += b->entries[i]->type == 'l';
    }
    t->count.bytes += b->bytes;
    t->bar.done += b->bytes;
    bar_tick(&t->bar);
}

// Call `move` for batches of all small entries, then `move_alone` for each large one.
static int in_batches(struct moving *t, const struct listing *l,
                      int (*move)(struct moving *t, const struct batch *b, struct err *e),
                      int (*move_alone)(struct moving *t, const struct entry *entry, struct err *e),
                      struct err *e)
{
    struct batch b = {0};
    int result = 0;
    for (size_t i = 0; result == 0 && i < l->count; i++) {
        const struct entry *entry = &l->entries[i];
        if (entry->type == 'o' || moving_is_alone(entry))
            continue;
        if (!has_room(&b, entry)) {
            result = move(t, &b, e);
            batch_clear(&b);
        }
        batch_add(&b, entry);
    }
    if (result == 0 && b.count)
        result = move(t, &b, e);
    free(b.entries);
    for (size_t i = 0; result == 0 && i < l->count; i++) {
        if (l->entries[i].type == 'o')
            moving_skip(t, l->entries[i].path, "neither a file, a directory nor a link");
        else if (moving_is_alone(&l->entries[i]))
            result = move_alone(t, &l->entries[i], e);
    }
    return result;
}

static bool is_closed(const struct entry *entry)
{
    bool is_left = entry->move && !entry->move->is_done;
    return !is_left && entry->type == 'd' && (entry->mode & OWN_ACCESS) != OWN_ACCESS;
}

// ---- into the sandbox
int moving__upload(struct moving *t, int fd, const char *path, struct err *e)
{
    t->bar.fd = fd;
    int result = remote_upload(t->remote, fd, path, e);
    t->bar.fd = -1;
    return result;
}

char *moving__upload_tar(struct moving *t, const struct entry *const *entries, size_t count,
                         bool exact, struct err *e)
{
    const char *dir = remote_dir(t->remote, e);
    int fd auto_close = dir ? fd_open_temp(e) : -1;
    if (fd < 0 || archive_pack(t->root, entries, count, exact, fd, e) < 0)
        return NULL;
    char *tar auto_free = str_printf("%s/tar", dir);
    if (lseek(fd, 0, SEEK_SET) < 0)
        return err_sys(e, errno, "read the archive of the copy"), NULL;
    return moving__upload(t, fd, tar, e) < 0 ? NULL : steal(&tar);
}

void moving__remove_part(struct moving *t, const char *part)
{
    const char *args[] = {part, NULL};
    bool cleans = t->remote->cleans;
    const char *user = t->remote->user;
    t->remote->cleans = true; // also after a signal
    t->remote->user = "root"; // as envd wrote it
    remote_script(t->remote, "rm -f \"$1\"", args, NULL, 0, NULL);
    t->remote->cleans = cleans;
    t->remote->user = user;
}

static int send_tar(struct moving *t, const struct entry *const *entries, size_t count, bool exact,
                    struct err *e)
{
    char *tar auto_free = moving__upload_tar(t, entries, count, exact, e);
    const char *args[] = {t->path, tar, NULL};
    if (!tar)
        return -1;
    if (remote_script(t->remote, "tar -xpf \"$2\" -C \"$1\" && rm -f \"$2\"", args, NULL, 0, e) ==
        0)
        return 0;
    return err_is(e) && e->code == ERR_INVALID
               ? err_wrap(e, "the sandbox could not unpack the files (is its disk full?)")
               : -1;
}

static int send_batch(struct moving *t, const struct batch *b, struct err *e)
{
    if (b->entries[0]->move)
        return moving__send_checked(t, b, e);
    if (send_tar(t, b->entries, b->count, false, e) < 0)
        return -1;
    note_batch(t, b);
    return 0;
}

int moving_send_file(struct moving *t, int fd, const struct entry *entry, const char *path,
                     bool *bare, struct err *e)
{
    static const char SCRIPT[] = "if chmod \"$3\" \"$1\" && touch -d \"@$4\" \"$1\" && "
                                 "mv -f \"$1\" \"$2\"; then exit 0; fi; rm -f \"$1\"; exit 1";
    char *random auto_free = random_hex(RANDOM);
    char *above auto_free = xstrndup(path, (size_t)(str_base(path) - path));
    char *part auto_free = str_printf("%s.cubby-%s.part", above, random);
    char *mode auto_free = str_printf("%o", entry->mode & 07777);
    char *time auto_free = str_printf("%lld", (long long)entry->seconds);
    const char *args[] = {part, path, mode, time, NULL};
    struct err why = ERR_INIT;
    if (*bare)
        return remote_upload(t->remote, fd, path, e);
    int result = moving__upload(t, fd, part, &why);
    if (result == 0)
        result = remote_script(t->remote, SCRIPT, args, NULL, 0, &why);
    if (result == 0)
        return 0;
    moving__remove_part(t, part);
    return err_set(e, why.code, "%s", why.msg);
}

static int send_alone(struct moving *t, const struct entry *entry, struct err *e)
{
    bool bare = false;
    if (entry->move)
        return moving__send_checked_file(t, entry, e);
    char *path auto_free = str_printf("%s/%s", t->path, entry->path);
    int fd auto_close = beneath_open(t->root, entry->path, O_RDONLY | O_NONBLOCK, e);
    if (fd < 0 || moving_send_file(t, fd, entry, path, &bare, e) < 0)
        return -1;
    t->count.files++;
    t->count.bytes += entry->size;
    t->bar.done += entry->size;
    return 0;
}

// Give directories that are closed to their own user their permissions, when all is in them.
static int close_sent(struct moving *t, const struct listing *l, struct err *e)
{
    struct batch b = {0};
    int result = 0;
    for (size_t i = 0; result == 0 && i < l->count; i++) {
        if (!is_closed(&l->entries[i]))
            continue;
        if (!has_room(&b, &l->entries[i])) {
            result = send_tar(t, b.entries, b.count, true, e);
            batch_clear(&b);
        }
        batch_add(&b, &l->entries[i]);
    }
    if (result == 0 && b.count)
        result = send_tar(t, b.entries, b.count, true, e);
    free(b.entries);
    return result;
}

int moving_send(struct moving *t, const struct listing *l, unsigned mode, struct err *e)
{
    char *octal auto_free = str_printf("%o", (mode & 0777) | OWN_ACCESS);
    const char *args[] = {t->path, octal, NULL};
    if (!remote_dir(t->remote, e) ||
        remote_script(t->remote, "[ -d \"$1\" ] || mkdir -p -m \"$2\" -- \"$1\"", args, NULL, 0,
                      e) < 0)
        return -1;
    if (in_batches(t, l, send_batch, send_alone, e) < 0)
        return -1;
    return close_sent(t, l, e);
}

// ---- to the host
int64_t moving__tar_max(const struct batch *b)
{
    return b->bytes + (int64_t)b->count * ENTRY_BYTES + SLACK_BYTES;
}

int moving__download(struct moving *t, const char *path, int fd, int64_t max, struct err *e)
{
    t->bar.fd = fd;
    int result = remote_download(t->remote, path, fd, max, e);
    t->bar.fd = -1;
    return result;
}

static int fetch_tar(struct moving *t, const struct batch *b, int fd, struct err *e)
{
    static const char SCRIPT[] =
        "cd -- \"$1\" && xargs -0 tar -cf \"$2/tar\" --no-recursion -- <\"$2/names\"";
    const char *dir = remote_dir(t->remote, e);
    if (!dir)
        return -1;
    char *names auto_free = str_printf("%s/names", dir);
    char *tar auto_free = str_printf("%s/tar", dir);
    struct buf list auto_buf = BUF_INIT;
    const char *args[] = {t->path, dir, NULL};
    for (size_t i = 0; i < b->count; i++) {
        buf_adds(&list, "./");
        buf_add(&list, b->entries[i]->path, strlen(b->entries[i]->path) + 1);
    }
    if (remote_upload_bytes(t->remote, &list, names, e) < 0 ||
        remote_script(t->remote, SCRIPT, args, NULL, 0, e) < 0)
        return -1;
    return moving__download(t, tar, fd, moving__tar_max(b), e);
}

static int fetch_batch(struct moving *t, const struct batch *b, struct err *e)
{
    const struct unpacking u = {.root = t->root,
                                .wanted = b->entries,
                                .count = b->count,
                                .keeps_links = t->keeps_links,
                                .on_skip = on_skip,
                                .ctx = t};
    if (b->entries[0]->move)
        return moving__fetch_checked(t, b, e);
    int fd auto_close = fd_open_temp(e);
    if (fd < 0 || fetch_tar(t, b, fd, e) < 0 || archive_unpack(&u, fd, e) < 0)
        return -1;
    note_batch(t, b);
    return 0;
}

int moving_fetch_file(struct moving *t, const char *path, const struct entry *entry, struct err *e)
{
    struct beneath_file file;
    if (beneath_file_begin(t->root, entry->path, &file, e) < 0)
        return -1;
    int result = moving__download(t, path, file.fd, entry->size + LISTING_GROWTH_BYTES, e);
    if (result == 0)
        return beneath_file_end(&file, entry, e);
    beneath_file_drop(&file);
    return -1;
}

static int fetch_alone(struct moving *t, const struct entry *entry, struct err *e)
{
    if (entry->move)
        return moving__fetch_checked_file(t, entry, e);
    char *path auto_free = str_printf("%s/%s", t->path, entry->path);
    if (moving_fetch_file(t, path, entry, e) < 0)
        return -1;
    t->count.files++;
    t->count.bytes += entry->size;
    t->bar.done += entry->size;
    return 0;
}

int moving_fetch(struct moving *t, const struct listing *l, struct err *e)
{
    if (!remote_dir(t->remote, e) || in_batches(t, l, fetch_batch, fetch_alone, e) < 0)
        return -1;
    for (size_t i = l->count; i > 0; i--) {
        const struct entry *entry = &l->entries[i - 1];
        bool is_left = entry->move && !entry->move->is_done;
        if (!is_left && entry->type == 'd' && beneath_dir_finish(t->root, entry, e) < 0)
            return -1;
    }
    return 0;
}
