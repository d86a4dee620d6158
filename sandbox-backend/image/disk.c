// SPDX-License-Identifier: Apache-2.0
// An ext4 file system as the source of a tree.
//
// A guest wrote it, so it may be damaged on purpose: directories in a circle, names with "/", sizes
// beyond all measure. A directory is entered once only.
#include "sandbox-backend/image/disk.h"

#include <ext2fs/ext2fs.h>
#include <search.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/image/layer.h"

#define BLOCK_BYTES (1 << 20)
#define LOST_FOUND  "lost+found"
#define ID_BITS     16

// An inode number that has been met.
struct met {
    ext2_ino_t ino;
    struct tree_inode *inode; // of a file; NULL: a directory
};

struct disk {
    ext2_filsys fs;
    struct tree *tree;
    void *met;     // tsearch(3) of struct met
    int64_t bytes; // that its files may still have
    struct err failed;
};

// The directory whose entries libext2fs reports.
struct dir {
    struct disk *disk;
    const char *path;
    char **names; // owned, as the numbers; the directory is left before they are looked at
    ext2_ino_t *numbers;
    size_t count, room;
};

static int by_number(const void *a, const void *b)
{
    ext2_ino_t x = ((const struct met *)a)->ino, y = ((const struct met *)b)->ino;
    return x < y ? -1 : x > y;
}

static int fail(errcode_t code, const char *what, struct err *e)
{
    return err_set(e, ERR_INVALID, "the disk's file system is damaged: %s: %s", what,
                   error_message(code));
}

struct disk *disk_open(const char *path, struct err *e)
{
    struct disk *d = xcalloc(1, sizeof *d);
    errcode_t code = ext2fs_open(path, EXT2_FLAG_64BITS | EXT2_FLAG_SOFTSUPP_FEATURES, 0, 0,
                                 unix_io_manager, &d->fs);
    if (!code)
        return d;
    fail(code, "open", e);
    free(d);
    return NULL;
}

static void met_free(void *met)
{
    struct tree_inode *inode = ((struct met *)met)->inode;
    if (inode) {
        inode->links--;
        tree_inode_unref(inode);
    }
    free(met);
}

void disk_close(struct disk *d)
{
    tdestroy(d->met, met_free);
    ext2fs_close(d->fs);
    free(d);
}

// ---- one file
static int on_xattr(char *name, char *value, size_t size, void *ctx)
{
    struct tree_inode *inode = ctx;
    if (!str_starts(name, "user.") && !str_eq(name, "security.capability"))
        return 0;
    struct tree_xattr *x = xcalloc(1, sizeof *x);
    *x = (struct tree_xattr){
        .next = inode->xattrs, .name = xstrdup(name), .value = xmemdup(value, size), .size = size};
    inode->xattrs = x;
    return 0;
}

static void take_xattrs(const struct disk *d, ext2_ino_t ino, struct tree_inode *inode)
{
    struct ext2_xattr_handle *handle;
    if (ext2fs_xattrs_open(d->fs, ino, &handle) != 0)
        return;
    if (ext2fs_xattrs_read(handle) == 0)
        ext2fs_xattrs_iterate(handle, on_xattr, inode);
    ext2fs_xattrs_close(&handle);
}

// The kernel keeps a short target in the inode itself.
static int take_target(const struct disk *d, ext2_ino_t ino, struct ext2_inode *raw,
                       struct tree_inode *inode, struct err *e)
{
    unsigned read = 0, size = raw->i_size;
    ext2_file_t file;
    if (raw->i_size == 0 || raw->i_size > TREE_PATH_MAX)
        return err_set(e, ERR_INVALID, "a symbolic link has no target, or one that is too long");
    inode->target = xcalloc(1, size + 1);
    if (ext2fs_is_fast_symlink(raw)) {
        memcpy(inode->target, raw->i_block,
               size < sizeof raw->i_block ? size : sizeof raw->i_block);
        return 0;
    }
    errcode_t code = ext2fs_file_open(d->fs, ino, 0, &file);
    if (code)
        return fail(code, "read a symbolic link", e);
    code = ext2fs_file_read(file, inode->target, size, &read);
    ext2fs_file_close(file);
    return code ? fail(code, "read a symbolic link", e) : 0;
}

static struct tree_inode *make_inode(const struct disk *d, ext2_ino_t ino, struct ext2_inode *raw,
                                     struct err *e)
{
    enum tree_kind kind = LINUX_S_ISDIR(raw->i_mode)   ? TREE_DIR
                          : LINUX_S_ISREG(raw->i_mode) ? TREE_FILE
                          : LINUX_S_ISLNK(raw->i_mode) ? TREE_SYMLINK
                                                       : TREE_FIFO;
    uint32_t uid = raw->i_uid | (uint32_t)raw->osd2.linux2.l_i_uid_high << ID_BITS;
    uint32_t gid = raw->i_gid | (uint32_t)raw->osd2.linux2.l_i_gid_high << ID_BITS;
    if (kind == TREE_FIFO && !LINUX_S_ISFIFO(raw->i_mode))
        return NULL; // a device or a socket
    struct tree_inode *inode = tree_inode_new(kind, raw->i_mode & 07777, uid, gid);
    inode->mtime = raw->i_mtime;
    inode->size = (int64_t)EXT2_I_SIZE(raw);
    inode->source = DISK_SOURCE;
    inode->entry = ino;
    take_xattrs(d, ino, inode);
    bool bad_size = kind == TREE_FILE && (inode->size < 0 || inode->size > (int64_t)1 << 40);
    if (bad_size)
        err_set(e, ERR_INVALID, "the disk's file system is damaged: the size of a file");
    if (!bad_size && (kind != TREE_SYMLINK || take_target(d, ino, raw, inode, e) == 0))
        return inode;
    tree_inode_unref(inode);
    return NULL;
}

// ---- directories
static int read_dir(struct disk *d, ext2_ino_t ino, const char *path, struct err *e);

// Return what is known of the number, after adding it.
static struct met *meet(struct disk *d, ext2_ino_t ino, bool *is_new)
{
    struct met *m = xcalloc(1, sizeof *m);
    m->ino = ino;
    struct met *found = *(struct met **)tsearch(m, &d->met, by_number);
    *is_new = found == m;
    if (!*is_new)
        free(m);
    return found;
}

static int take_file(struct disk *d, ext2_ino_t ino, const char *path, struct err *e)
{
    struct ext2_inode raw;
    struct tree_node *parent;
    const char *name;
    bool is_new;
    errcode_t code = ext2fs_read_inode(d->fs, ino, &raw);
    if (code)
        return fail(code, path, e);
    struct met *met = meet(d, ino, &is_new);
    if (!is_new && !met->inode)
        return LINUX_S_ISDIR(raw.i_mode)
                   ? err_set(e, ERR_INVALID,
                             "the disk's file system is damaged: /%.200s is in "
                             "itself",
                             path)
                   : 0; // a device
    struct tree_inode *inode = is_new ? make_inode(d, ino, &raw, e) : met->inode;
    if (!inode)
        return err_is(e) ? -1 : 0;
    bool is_dir = inode->kind == TREE_DIR;
    if (is_new && !is_dir) {
        met->inode = inode;
        inode->links++; // a later name of the same file needs it, even if this one is replaced
        d->bytes -= inode->kind == TREE_FILE ? inode->size : 0;
        if (d->bytes < 0)
            return err_set(e, ERR_TOO_LARGE, "the disk's files are larger than the disk");
    }
    if (tree_place(d->tree, path, DISK_SOURCE, &parent, &name, e) < 0) {
        tree_inode_unref(inode);
        return -1;
    }
    if (tree_add(d->tree, parent, name, inode, DISK_SOURCE, e) < 0)
        return -1;
    return is_dir ? read_dir(d, ino, path, e) : 0;
}

static int on_entry(struct ext2_dir_entry *entry, int offset, int block_size, char *block,
                    void *ctx)
{
    (void)offset;
    (void)block_size;
    (void)block;
    struct dir *dir = ctx;
    size_t len = (size_t)ext2fs_dirent_name_len(entry);
    char *name auto_free = xstrndup(entry->name, len);
    if (str_eq(name, ".") || str_eq(name, ".."))
        return 0;
    if (!*name || strchr(name, '/') || strlen(name) != len) {
        err_set(&dir->disk->failed, ERR_INVALID,
                "the disk's file system is damaged: a name in /%.200s", dir->path);
        return DIRENT_ABORT;
    }
    if (dir->count == dir->room) {
        dir->room = dir->room ? 2 * dir->room : 16;
        dir->names = xrealloc(dir->names, dir->room * sizeof *dir->names);
        dir->numbers = xrealloc(dir->numbers, dir->room * sizeof *dir->numbers);
    }
    dir->numbers[dir->count] = entry->inode;
    dir->names[dir->count++] = steal(&name);
    return dir->count < TREE_NODES_MAX ? 0 : DIRENT_ABORT;
}

static int read_dir(struct disk *d, ext2_ino_t ino, const char *path, struct err *e)
{
    struct dir dir = {.disk = d, .path = path};
    errcode_t code = ext2fs_dir_iterate(d->fs, ino, 0, NULL, on_entry, &dir);
    int result = code                 ? fail(code, path, e)
                 : err_is(&d->failed) ? err_set(e, d->failed.code, "%s", d->failed.msg)
                                      : 0;
    for (size_t i = 0; i < dir.count; i++) {
        char *child auto_free =
            *path ? str_printf("%s/%s", path, dir.names[i]) : xstrdup(dir.names[i]);
        if (result == 0 && !str_eq(child, LOST_FOUND))
            result = take_file(d, dir.numbers[i], child, e);
        free(dir.names[i]);
    }
    free(dir.names);
    free(dir.numbers);
    return result;
}

int disk_read(struct disk *d, struct tree *t, int64_t max_bytes, struct err *e)
{
    bool is_new;
    d->bytes = max_bytes;
    d->tree = t;
    meet(d, EXT2_ROOT_INO, &is_new);
    return read_dir(d, EXT2_ROOT_INO, "", e);
}

// ---- one file
bool disk_needs_replay(const struct disk *d)
{
    return ext2fs_has_feature_journal_needs_recovery(d->fs->super) != 0;
}

static int read_start(const struct disk *d, ext2_ino_t ino, char *to, unsigned max, unsigned *len)
{
    ext2_file_t file;
    if (ext2fs_file_open(d->fs, ino, 0, &file))
        return -1;
    unsigned got = 0;
    errcode_t code = 0;
    for (*len = 0; !code && *len < max; *len += got) {
        code = ext2fs_file_read(file, to + *len, max - *len, &got);
        if (!got)
            break;
    }
    ext2fs_file_close(file);
    return code ? -1 : 0;
}

char *disk_file(struct disk *d, const char *path, size_t max, size_t *len, bool *may_run)
{
    ext2_ino_t ino;
    struct ext2_inode raw;
    unsigned got = 0;
    if (ext2fs_namei_follow(d->fs, EXT2_ROOT_INO, EXT2_ROOT_INO, path, &ino) ||
        ext2fs_read_inode(d->fs, ino, &raw) || !LINUX_S_ISREG(raw.i_mode))
        return NULL;
    char *data = xcalloc(1, max + 1);
    if (read_start(d, ino, data, (unsigned)max, &got) < 0) {
        free(data);
        return NULL;
    }
    *len = got;
    *may_run = raw.i_mode & 0111;
    return data;
}

// ---- contents
static int write_file(const struct disk *d, const struct tree_inode *inode, struct archive *out,
                      struct err *e)
{
    static char block[BLOCK_BYTES];
    ext2_file_t file;
    errcode_t code = ext2fs_file_open(d->fs, (ext2_ino_t)inode->entry, 0, &file);
    int result = code ? fail(code, "open a file", e) : layer_write_header(out, inode->shown, e);
    for (int64_t left = inode->size; result == 0 && left > 0;) {
        unsigned want = left < BLOCK_BYTES ? (unsigned)left : BLOCK_BYTES, got = 0;
        code = ext2fs_file_read(file, block, want, &got);
        if (code || !got)
            result = fail(code, "read a file", e);
        else
            result = layer_write_data(out, block, got, e);
        left -= got;
    }
    if (!code)
        ext2fs_file_close(file);
    return result;
}

int disk_write_files(int source, struct tree_inode *const *wanted, struct archive *out, void *ctx,
                     struct err *e)
{
    (void)source;
    for (; *wanted; wanted++)
        if (write_file(ctx, *wanted, out, e) < 0)
            return -1;
    return 0;
}
