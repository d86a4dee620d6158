// SPDX-License-Identifier: Apache-2.0
#include "sandbox-backend/cli/copy/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/copy/beneath.h"
#include "sandbox-backend/cli/copy/listing.h"

#define BLOCK_BYTES 65536
#define MODE_BITS   07777
#define OWN_ACCESS  0700

static int fail_archive(struct archive *a, const char *path, struct err *e)
{
    const char *why = archive_error_string(a);
    return err_set(e, archive_errno(a) == ENOSPC ? ERR_NO_SPACE : ERR_INTERNAL,
                   "the archive of %.150s: %.120s", path, why ? why : "an unknown error");
}

// ---- from the host
static int changed(const char *path, struct err *e)
{
    return err_set(e, ERR_CONFLICT, "%.200s changed while it was copied; copy it again", path);
}

// Copy a file to `out`, and set size, time and permissions to those that it had before and after.
static int stage(int fd, int out, struct entry *from, struct err *e)
{
    struct stat before;
    if (fstat(fd, &before) < 0 || ftruncate(out, 0) < 0 || lseek(out, 0, SEEK_SET) < 0)
        return err_sys(e, errno, "read %.200s", from->path);
    if (!S_ISREG(before.st_mode))
        return changed(from->path, e);
    char block[BLOCK_BYTES];
    int64_t left = before.st_size;
    for (ssize_t n; left && (n = read(fd, block, sizeof block)) != 0; left -= n) {
        if (n < 0)
            return err_sys(e, errno, "read %.200s", from->path);
        n = n > left ? left : n;
        if (fd_write_all(out, block, (size_t)n, e) < 0)
            return -1;
    }
    entry_take_stat(from, &before);
    return left || !entry_is_still(fd, &before) ? changed(from->path, e) : 0;
}

static int pack_data(struct archive *a, int fd, const struct entry *from, struct err *e)
{
    char block[BLOCK_BYTES];
    int64_t left = from->size;
    for (ssize_t n; (n = read(fd, block, sizeof block)) != 0; left -= n) {
        if (n < 0)
            return err_sys(e, errno, "read %.200s", from->path);
        if (n > left)
            return changed(from->path, e);
        if (archive_write_data(a, block, (size_t)n) != n)
            return fail_archive(a, from->path, e);
    }
    return left ? changed(from->path, e) : 0;
}

static int read_target(int root, const char *path, char *out, size_t room, struct err *e)
{
    int fd auto_close = beneath_open(root, path, O_PATH, e);
    ssize_t n = fd < 0 ? -1 : readlinkat(fd, "", out, room - 1);
    if (fd >= 0 && n < 0)
        return errno == ENOENT ? changed(path, e) : err_sys(e, errno, "read %.200s", path);
    if (n < 0)
        return -1;
    out[n] = '\0';
    return 0;
}

static int check_target(const struct entry *from, const char *target, struct err *e)
{
    bool is_other = from->move && from->target && strcmp(from->target, target) != 0;
    return is_other ? changed(from->path, e) : 0;
}

static int pack_header(struct archive *a, const struct entry *from, unsigned mode,
                       const char *target, struct err *e)
{
    struct archive_entry *entry = archive_entry_new();
    archive_entry_set_pathname(entry, from->path);
    archive_entry_set_filetype(entry, from->type == 'f'   ? AE_IFREG
                                      : from->type == 'd' ? AE_IFDIR
                                                          : AE_IFLNK);
    archive_entry_set_perm(entry, mode & MODE_BITS);
    archive_entry_set_mtime(entry, from->seconds, 0);
    archive_entry_set_size(entry, from->size);
    if (target)
        archive_entry_set_symlink(entry, target);
    int status = archive_write_header(a, entry);
    archive_entry_free(entry);
    return status == ARCHIVE_OK || status == ARCHIVE_WARN ? 0 : fail_archive(a, from->path, e);
}

static int pack_one(struct archive *a, int root, const struct entry *from, bool exact,
                    struct err *e)
{
    char target[PATH_MAX];
    unsigned mode = from->type == 'd' && !exact ? from->mode | OWN_ACCESS : from->mode;
    if (from->type == 'l')
        return read_target(root, from->path, target, sizeof target, e) < 0 ||
                       check_target(from, target, e) < 0
                   ? -1
                   : pack_header(a, from, mode, target, e);
    if (from->type == 'd')
        return pack_header(a, from, mode, NULL, e);
    int fd auto_close = beneath_open(root, from->path, O_RDONLY | O_NONBLOCK, e);
    if (fd < 0 || pack_header(a, from, mode, NULL, e) < 0)
        return -1;
    return pack_data(a, fd, from, e);
}

// Pack a file as it is now, by way of the file `through`: its header cannot be taken back.
static int pack_staged(struct archive *a, int root, struct entry *now, int through, struct err *e)
{
    int fd auto_close = beneath_open(root, now->path, O_RDONLY | O_NONBLOCK, e);
    if (fd < 0 || stage(fd, through, now, e) < 0)
        return -1;
    if (lseek(through, 0, SEEK_SET) < 0)
        return err_sys(e, errno, "read %.200s", now->path);
    return pack_header(a, now, now->mode, NULL, e) < 0 ? -1 : pack_data(a, through, now, e);
}

// Pack an entry of a synchronisation, or leave it out.
static int pack_or_leave(struct archive *a, int root, const struct entry *from, int through,
                         struct err *e)
{
    struct err why = ERR_INIT;
    struct entry now = *from;
    int result = from->type == 'f' ? pack_staged(a, root, &now, through, &why)
                                   : pack_one(a, root, from, false, &why);
    from->move->is_read = result == 0;
    if (result == 0)
        move_note(from->move, &now, NULL);
    bool is_other = why.code == ERR_DENIED && !why.sys; // a link is in its place
    if (result == 0 || why.code == ERR_CONFLICT || why.code == ERR_NOT_FOUND || is_other)
        return 0;
    return err_set(e, why.code, "%s", why.msg);
}

int archive_pack(int root, const struct entry *const *entries, size_t count, bool exact, int out,
                 struct err *e)
{
    struct archive *a = archive_write_new();
    int result = 0;
    int through auto_close = count && entries[0]->move ? fd_open_temp(e) : -1;
    if (count && entries[0]->move && through < 0)
        result = -1;
    archive_write_set_format_gnutar(a); // which keeps any bytes of a name
    if (result == 0 && archive_write_open_fd(a, out) != ARCHIVE_OK)
        result = fail_archive(a, "the copy", e);
    for (size_t i = 0; result == 0 && i < count; i++)
        result = entries[i]->move && !exact ? pack_or_leave(a, root, entries[i], through, e)
                                            : pack_one(a, root, entries[i], exact, e);
    if (result == 0 && archive_write_close(a) != ARCHIVE_OK)
        result = fail_archive(a, "the copy", e);
    archive_write_free(a);
    return result;
}

// ---- to the host
static const struct entry *find(const struct unpacking *u, const char *path)
{
    size_t low = 0;
    size_t high = u->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(path, u->wanted[middle]->path);
        if (order == 0)
            return u->wanted[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

// The path of an entry without "./" in front and "/" behind. New string; NULL: it has none.
static char *plain_path(struct archive_entry *entry)
{
    const char *path = archive_entry_pathname(entry);
    if (!path)
        path = archive_entry_pathname_utf8(entry);
    while (path && strncmp(path, "./", 2) == 0)
        path += 2;
    size_t len = path ? strlen(path) : 0;
    while (len && path[len - 1] == '/')
        len--;
    return len ? xstrndup(path, len) : NULL;
}

// Tell of a file that is larger than listed, or has holes: a small tar with holes could fill the
// disk.
static int check_block(const struct entry *wanted, int64_t written, int64_t offset, size_t len,
                       struct err *e)
{
    if (offset != written)
        return err_set(e, ERR_INVALID,
                       "the sandbox's archive has %.150s as a sparse file, which is refused; its "
                       "tar must write files without holes (is TAR_OPTIONS set?)",
                       wanted->path);
    int64_t room = wanted->size + LISTING_GROWTH_BYTES - written;
    return (int64_t)len > room ? changed(wanted->path, e) : 0;
}

static int unpack_data(struct archive *a, int fd, int64_t size, const struct entry *wanted,
                       struct err *e)
{
    const void *block = NULL;
    size_t len = 0;
    la_int64_t offset = 0;
    int64_t written = 0;
    int status = ARCHIVE_OK;
    while ((status = archive_read_data_block(a, &block, &len, &offset)) == ARCHIVE_OK) {
        if (check_block(wanted, written, offset, len, e) < 0)
            return -1;
        if (fd_write_all(fd, block, len, e) < 0)
            return err_wrap(e, "write %.200s", wanted->path);
        written += (int64_t)len;
    }
    if (status != ARCHIVE_EOF)
        return fail_archive(a, wanted->path, e);
    return check_block(wanted, written, size, 0, e); // a hole at the end has no block
}

// Check that an entry of a synchronisation replaces what was listed.
static int check_place(const struct unpacking *u, const struct entry *wanted, struct err *e)
{
    const struct move *move = wanted->move;
    return move && !beneath_is_unchanged(u->root, wanted->path, move->replaces)
               ? changed(wanted->path, e)
               : 0;
}

// Note what was read and written. A tar has no parts of a second, so the listing tells them if the
// file is still the same.
static void note_file(const struct entry *wanted, const struct entry *meta)
{
    struct entry from = *wanted;
    struct entry to = *meta;
    if (from.size != meta->size || from.seconds != meta->seconds) {
        from.size = meta->size;
        from.seconds = meta->seconds;
        from.nanoseconds = meta->nanoseconds;
    }
    from.mode = meta->mode;
    to.mode = beneath_mode(meta->mode);
    move_note(wanted->move, &from, &to);
    wanted->move->is_done = true;
}

static void note_hard_link(const struct entry *wanted, const struct move *first)
{
    struct entry from = *first->from;
    struct entry to = *first->to;
    from.path = to.path = wanted->path;
    move_note(wanted->move, &from, &to);
    wanted->move->is_done = true;
}

static int note_other(const struct entry *wanted, int result)
{
    if (result == 0 && wanted->move) {
        move_note(wanted->move, wanted, wanted);
        wanted->move->is_done = true;
    }
    return result;
}

static int unpack_file(const struct unpacking *u, struct archive *a, struct archive_entry *entry,
                       const struct entry *wanted, struct err *e)
{
    struct beneath_file file;
    struct entry meta = {.path = wanted->path,
                         .type = 'f',
                         .size = archive_entry_size(entry),
                         .mode = archive_entry_perm(entry),
                         .seconds = archive_entry_mtime(entry),
                         .nanoseconds = archive_entry_mtime_nsec(entry)};
    if (beneath_file_begin(u->root, wanted->path, &file, e) < 0)
        return -1;
    if (unpack_data(a, file.fd, meta.size, wanted, e) < 0 || check_place(u, wanted, e) < 0) {
        beneath_file_drop(&file);
        return -1;
    }
    if (beneath_file_end(&file, &meta, e) < 0)
        return -1;
    if (wanted->move)
        note_file(wanted, &meta);
    return 0;
}

static int unpack_link(const struct unpacking *u, struct archive_entry *entry,
                       const struct entry *wanted, struct err *e)
{
    const char *path = wanted->path;
    const char *target = archive_entry_symlink(entry);
    if (!target)
        target = archive_entry_symlink_utf8(entry);
    if (wanted->move &&
        (!target || check_target(wanted, target, e) < 0 || check_place(u, wanted, e) < 0))
        return target ? -1 : changed(path, e);
    if (target && (u->keeps_links || !beneath_leads_out(path, target)))
        return beneath_link(u->root, path, target, e);
    if (u->on_skip)
        u->on_skip(path, u->ctx);
    return 0;
}

// Make a second name of a file. A second name of a symbolic link could lead out of the destination,
// since `..` leads elsewhere at another depth.
static int unpack_hard_link(const struct unpacking *u, const struct entry *wanted, const char *from,
                            struct err *e)
{
    while (strncmp(from, "./", 2) == 0)
        from += 2;
    const struct entry *first = find(u, from);
    if (!first)
        return err_set(e, ERR_INVALID,
                       "the sandbox's archive links %.100s to %.100s, which was "
                       "not asked for",
                       wanted->path, from);
    const struct move *move = wanted->move;
    if (wanted->type != 'f' || first->type != 'f' || (move && !first->move->is_done))
        return changed(wanted->path, e);
    if (check_place(u, wanted, e) < 0 || beneath_hard_link(u->root, wanted->path, from, e) < 0)
        return -1;
    if (move)
        note_hard_link(wanted, first->move);
    return 0;
}

static int unpack_one(const struct unpacking *u, struct archive *a, struct archive_entry *entry,
                      struct err *e)
{
    char *path auto_free = plain_path(entry);
    const struct entry *wanted = path ? find(u, path) : NULL;
    if (!wanted || !listing_path_is_plain(path))
        return err_set(e, ERR_INVALID,
                       "the sandbox's archive has an entry that was not asked "
                       "for: %.200s",
                       path ? path : "one without a name");
    if (wanted->move && !wanted->move->is_read)
        return changed(path, e);
    const char *hard = archive_entry_hardlink(entry);
    if (hard)
        return unpack_hard_link(u, wanted, hard, e);
    switch (archive_entry_filetype(entry)) {
    case AE_IFREG:
        return wanted->type == 'f' ? unpack_file(u, a, entry, wanted, e) : changed(path, e);
    case AE_IFDIR:
        return wanted->type == 'd' ? note_other(wanted, beneath_dir(u->root, path, e))
                                   : changed(path, e);
    case AE_IFLNK:
        return wanted->type == 'l' ? note_other(wanted, unpack_link(u, entry, wanted, e))
                                   : changed(path, e);
    default:
        return changed(path, e);
    }
}

// Unpack an entry, or leave it out if a synchronisation may do so.
static int unpack_or_leave(const struct unpacking *u, struct archive *a,
                           struct archive_entry *entry, struct err *e)
{
    struct err why = ERR_INIT;
    if (unpack_one(u, a, entry, &why) == 0)
        return 0;
    bool leaves = u->count && u->wanted[0]->move && why.code == ERR_CONFLICT;
    return leaves ? 0 : err_set(e, why.code, "%s", why.msg);
}

int archive_unpack(const struct unpacking *u, int in, struct err *e)
{
    struct archive *a = archive_read_new();
    struct archive_entry *entry = NULL;
    int status = ARCHIVE_FATAL;
    int result = 0;
    archive_read_support_format_tar(a);
    archive_read_support_format_empty(a);
    if (lseek(in, 0, SEEK_SET) < 0 || archive_read_open_fd(a, in, BLOCK_BYTES) != ARCHIVE_OK)
        result = fail_archive(a, "the copy", e);
    while (result == 0 &&
           ((status = archive_read_next_header(a, &entry)) == ARCHIVE_OK || status == ARCHIVE_WARN))
        result = unpack_or_leave(u, a, entry, e);
    if (result == 0 && status != ARCHIVE_EOF)
        result = fail_archive(a, "the copy", e);
    archive_read_free(a);
    return result;
}
