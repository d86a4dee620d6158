// SPDX-License-Identifier: Apache-2.0
// The layers of an image: tar archives, compressed or not, which libarchive reads.
#include "sandbox-backend/image/layer.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/image/program.h"
#include "sandbox-backend/keys/sha256.h"

#define BLOCK_BYTES       (1 << 20)
#define WHITEOUT          ".wh."
#define OPAQUE            ".wh..wh..opq"
#define AUFS              ".wh..wh." // other names that begin so are of AUFS, which nobody needs
#define ID_MAX            4294967294LL
#define MODE_BITS         07777
#define BETWEEN_BYTES_MAX (1LL << 30) // of headers and padding in a layer
#define KEPT_BYTES_MAX    (1 << 20)   // of a file whose contents the tree keeps

// Files that are read and changed later (fixup.c).
static const char *const KEPT[] = {"passwd", "group", "shadow", "profile"};

struct layer {
    struct tree *tree;
    int number;
    int64_t entry; // number of the present entry
    struct archive *in;
    struct layer_limits *limits;
    int64_t unpacked_max;
};

static struct archive *new_archive(bool compressed)
{
    struct archive *a = archive_read_new();
    archive_read_support_format_empty(a);
    if (compressed) {
        archive_read_support_filter_gzip(a);
        archive_read_support_filter_zstd(a);
        archive_read_support_filter_bzip2(a);
        archive_read_support_filter_xz(a);
    }
    return a;
}

// Names are bytes, in whatever character set.
static void take_tar(struct archive *a)
{
    archive_read_support_format_tar(a);
    archive_read_set_options(a, "hdrcharset=BINARY");
}

static struct archive *open_archive(const char *path, struct err *e)
{
    struct archive *a = new_archive(true);
    take_tar(a);
    if (archive_read_open_filename(a, path, BLOCK_BYTES) == ARCHIVE_OK)
        return a;
    err_set(e, ERR_INVALID, "%s", archive_error_string(a));
    archive_read_free(a);
    return NULL;
}

// ---- an archive that is hashed while it is read
// One libarchive unpacks the file, and another reads what comes out as a tar archive.
struct hashed {
    struct archive *raw;
    struct sha256_stream *hash;
    char block[BLOCK_BYTES];
};

static la_ssize_t read_hashed(struct archive *a, void *ctx, const void **out)
{
    struct hashed *h = ctx;
    la_ssize_t n = archive_read_data(h->raw, h->block, sizeof h->block);
    *out = h->block;
    if (n < 0)
        archive_set_error(a, archive_errno(h->raw), "%s", archive_error_string(h->raw));
    else
        sha256_add(h->hash, h->block, (size_t)n);
    return n;
}

static struct archive *open_hashed(struct hashed *h, const char *path, struct err *e)
{
    struct archive_entry *entry;
    struct archive *a = new_archive(false);
    take_tar(a);
    h->raw = new_archive(true);
    h->hash = sha256_begin();
    archive_read_support_format_raw(h->raw);
    if (archive_read_open_filename(h->raw, path, BLOCK_BYTES) == ARCHIVE_OK &&
        archive_read_next_header(h->raw, &entry) >= ARCHIVE_WARN &&
        archive_read_open(a, h, NULL, read_hashed, NULL) == ARCHIVE_OK)
        return a;
    const char *why = archive_error_string(h->raw);
    err_set(e, ERR_INVALID, "it is damaged or ends too early: %s", why ? why : "it has no data");
    archive_read_free(a);
    return NULL;
}

// Hash what follows the tar archive, too, and compare.
static int check_hashed(struct hashed *h, int64_t max, const char *digest, struct err *e)
{
    struct sha256 is, wanted;
    la_ssize_t n = 0;
    const void *ignored;
    for (int64_t left = max; left > 0 && (n = read_hashed(h->raw, h, &ignored)) > 0;)
        left -= n;
    sha256_end(steal(&h->hash), &is);
    if (n < 0)
        return err_set(e, ERR_INVALID, "it is damaged or ends too early: %s",
                       archive_error_string(h->raw));
    return sha256_from_hex(digest, &wanted) && sha256_equal(&is, &wanted)
               ? 0
               : err_set(e, ERR_INVALID,
                         "unpacked, it has another digest than the image's configuration says");
}

static void hashed_free(struct hashed *h)
{
    if (h->hash)
        sha256_end(h->hash, NULL);
    archive_read_free(h->raw);
    free(h);
}

// Return 1 at the next entry, 0 at the end, -1 if the archive is damaged.
static int next_entry(struct archive *a, struct archive_entry **entry, struct err *e)
{
    int rc = archive_read_next_header(a, entry);
    if (rc == ARCHIVE_EOF)
        return 0;
    if (rc == ARCHIVE_OK || rc == ARCHIVE_WARN)
        return 1;
    return err_set(e, ERR_INVALID, "it is damaged or ends too early: %s", archive_error_string(a));
}

// ---- attributes
static bool wanted_xattr(const char *name)
{
    return str_starts(name, "user.") || str_eq(name, "security.capability");
}

static int take_xattrs(struct tree_inode *inode, struct archive_entry *entry, struct err *e)
{
    const char *name;
    const void *value;
    size_t size, total = 0;
    archive_entry_xattr_reset(entry);
    while (archive_entry_xattr_next(entry, &name, &value, &size) == ARCHIVE_OK) {
        if (!wanted_xattr(name))
            continue;
        total += size + strlen(name);
        if (total > TREE_XATTRS_MAX)
            return err_set(e, ERR_INVALID, "extended attributes have more than %d bytes",
                           TREE_XATTRS_MAX);
        struct tree_xattr *x = xcalloc(1, sizeof *x);
        *x = (struct tree_xattr){.next = inode->xattrs,
                                 .name = xstrdup(name),
                                 .value = xmemdup(value, size),
                                 .size = size};
        inode->xattrs = x;
    }
    return 0;
}

static int take_owner(struct archive_entry *entry, uint32_t *uid, uint32_t *gid, struct err *e)
{
    int64_t u = archive_entry_uid(entry), g = archive_entry_gid(entry);
    if (u < 0 || g < 0 || u > ID_MAX || g > ID_MAX)
        return err_set(e, ERR_INVALID, "its owner %lld:%lld is impossible", (long long)u,
                       (long long)g);
    *uid = (uint32_t)u;
    *gid = (uint32_t)g;
    return 0;
}

// ---- one entry
static int keep_data(struct layer *l, struct tree_inode *inode, struct err *e)
{
    inode->data = xcalloc(1, (size_t)inode->size + 1);
    if (archive_read_data(l->in, inode->data, (size_t)inode->size) != (la_ssize_t)inode->size)
        return err_set(e, ERR_INVALID, "its contents are damaged");
    return 0;
}

// The beginning of a program tells whether it runs here. The rest is skipped.
static void look_at_program(struct layer *l, struct tree_inode *inode)
{
    char head[PROGRAM_HEAD];
    la_ssize_t n = inode->mode & 0111 ? archive_read_data(l->in, head, sizeof head) : 0;
    inode->runs = n > 0 && program_runs(head, (size_t)n);
}

static bool is_kept(const struct tree_node *parent, const char *name, int64_t size)
{
    bool in_etc = parent->parent && !parent->parent->parent && str_eq(parent->name, "etc");
    for (size_t i = 0; in_etc && i < ARRAY_LEN(KEPT); i++)
        if (str_eq(name, KEPT[i]))
            return size <= KEPT_BYTES_MAX;
    return false;
}

// Return the inode of a hard link's target, or NULL: it must be in the image already.
static struct tree_inode *linked(const struct layer *l, const char *target, struct err *e)
{
    struct tree_node *n = tree_find(l->tree, target, false);
    if (n && n->inode->kind != TREE_DIR)
        return n->inode;
    err_set(e, ERR_INVALID, "it is a hard link to \"%.200s\", which the image does not have",
            target);
    return NULL;
}

static struct tree_inode *make_inode(const struct layer *l, struct archive_entry *entry,
                                     struct err *e)
{
    static const struct {
        mode_t type;
        enum tree_kind kind;
    } KINDS[] = {{AE_IFDIR, TREE_DIR},
                 {AE_IFREG, TREE_FILE},
                 {AE_IFLNK, TREE_SYMLINK},
                 {AE_IFIFO, TREE_FIFO}};
    uint32_t uid = 0, gid = 0;
    size_t i = 0;
    while (i < ARRAY_LEN(KINDS) && KINDS[i].type != archive_entry_filetype(entry))
        i++;
    if (i == ARRAY_LEN(KINDS) || take_owner(entry, &uid, &gid, e) < 0)
        return NULL; // a device or socket: dropped
    struct tree_inode *inode =
        tree_inode_new(KINDS[i].kind, archive_entry_perm(entry) & MODE_BITS, uid, gid);
    const char *target = archive_entry_symlink(entry);
    inode->mtime = archive_entry_mtime(entry) > 0 ? archive_entry_mtime(entry) : 0;
    inode->size = archive_entry_size(entry);
    inode->source = l->number;
    inode->entry = l->entry;
    inode->target = inode->kind == TREE_SYMLINK ? xstrdup(target ? target : "") : NULL;
    if (take_xattrs(inode, entry, e) < 0)
        err_wrap(e, "%s", "attributes");
    else if (inode->target && (!*inode->target || strlen(inode->target) > TREE_PATH_MAX))
        err_set(e, ERR_INVALID, "its target is empty or too long");
    else if (inode->size < 0)
        err_set(e, ERR_INVALID, "its size is negative");
    if (!err_is(e))
        return inode;
    tree_inode_unref(inode);
    return NULL;
}

// A file that other entries mark as removed. Return whether the entry was such a mark.
static bool take_whiteout(const struct layer *l, struct tree_node *parent, const char *name,
                          struct err *e)
{
    if (!str_starts(name, WHITEOUT))
        return false;
    const char *removed = name + strlen(WHITEOUT);
    if (str_eq(name, OPAQUE))
        tree_opaque(l->tree, parent, l->number);
    else if (!*removed || str_eq(removed, ".") || str_eq(removed, ".."))
        err_set(e, ERR_INVALID, "it is a whiteout of nothing");
    else if (!str_starts(name, AUFS))
        tree_whiteout(l->tree, parent, removed, l->number);
    return true;
}

static int take_entry(struct layer *l, struct archive_entry *entry, const char *path, struct err *e)
{
    struct tree_node *parent;
    const char *last;
    const char *target = archive_entry_hardlink(entry);
    if (tree_place(l->tree, path, l->number, &parent, &last, e) < 0)
        return -1;
    char *name auto_free = last ? xstrndup(last, strcspn(last, "/")) : NULL;
    if (name && take_whiteout(l, parent, name, e))
        return err_is(e) ? -1 : 0;
    struct tree_inode *inode = target ? linked(l, target, e) : make_inode(l, entry, e);
    if (!inode)
        return err_is(e) ? -1 : 0;
    bool is_file = !target && inode->kind == TREE_FILE && name;
    bool keeps = is_file && is_kept(parent, name, inode->size);
    if (keeps && keep_data(l, inode, e) < 0) {
        tree_inode_unref(inode);
        return -1;
    }
    if (is_file && !keeps)
        look_at_program(l, inode);
    return tree_add(l->tree, parent, name, inode, l->number, e);
}

// Count the entry before its contents are read. What is between the entries counts, too: headers
// compress well.
static int count(struct layer *l, struct archive_entry *entry, struct err *e)
{
    int64_t size = archive_entry_size(entry);
    l->limits->bytes -= size > 0 ? size : 0;
    if (--l->limits->entries < 0)
        return err_set(e, ERR_TOO_LARGE, "the layers have more than %d entries", LAYER_ENTRIES_MAX);
    if (size < 0 || l->limits->bytes < 0 ||
        archive_filter_bytes(l->in, 0) > l->unpacked_max + BETWEEN_BYTES_MAX)
        return err_set(e, ERR_TOO_LARGE,
                       "the image unpacks to more than the disk holds: give a larger --disk");
    return 0;
}

static int read_all(struct layer *l, struct err *e)
{
    struct archive_entry *entry;
    for (int more; (more = next_entry(l->in, &entry, e)) != 0; l->entry++) {
        if (more < 0 || count(l, entry, e) < 0)
            return -1;
        const char *path = archive_entry_pathname(entry);
        if (!path)
            return err_set(e, ERR_INVALID, "an entry has no name");
        char *copy auto_free = xstrdup(path);
        if (take_entry(l, entry, copy, e) < 0)
            return err_wrap(e, "\"%.200s\"", copy);
    }
    return 0;
}

int layer_read(struct tree *t, const char *path, int number, const char *digest,
               struct layer_limits *limits, struct err *e)
{
    struct layer l = {.tree = t, .number = number, .limits = limits, .unpacked_max = limits->bytes};
    struct hashed *h = digest ? xcalloc(1, sizeof *h) : NULL;
    l.in = h ? open_hashed(h, path, e) : open_archive(path, e);
    int result = l.in ? read_all(&l, e) : -1;
    if (h && result == 0)
        result = check_hashed(h, l.unpacked_max + BETWEEN_BYTES_MAX, digest, e);
    if (l.in)
        archive_read_free(l.in);
    if (h)
        hashed_free(h);
    return result < 0 ? err_wrap(e, "layer %d", number) : 0;
}

// ---- writing
int layer_write_header(struct archive *out, const struct tree_node *node, struct err *e)
{
    static const unsigned TYPES[] = {[TREE_DIR] = AE_IFDIR,
                                     [TREE_FILE] = AE_IFREG,
                                     [TREE_SYMLINK] = AE_IFLNK,
                                     [TREE_FIFO] = AE_IFIFO};
    const struct tree_inode *inode = node->inode;
    char *path auto_free = tree_path(node);
    if (strlen(path) > TREE_PATH_MAX)
        return err_set(e, ERR_INVALID, "a path has more than %d bytes: %.80s...", TREE_PATH_MAX,
                       path);
    struct archive_entry *entry = archive_entry_new();
    bool again = inode->shown && inode->shown != node && inode->kind != TREE_SYMLINK;
    archive_entry_set_pathname(entry, *path ? path : ".");
    archive_entry_set_filetype(entry, TYPES[inode->kind]);
    archive_entry_set_perm(entry, inode->mode);
    archive_entry_set_uid(entry, inode->uid);
    archive_entry_set_gid(entry, inode->gid);
    archive_entry_set_mtime(entry, inode->mtime, 0);
    archive_entry_set_size(entry, inode->kind == TREE_FILE && !again ? inode->size : 0);
    if (inode->kind == TREE_SYMLINK)
        archive_entry_set_symlink(entry, inode->target);
    for (const struct tree_xattr *x = inode->xattrs; x && !again; x = x->next)
        archive_entry_xattr_add_entry(entry, x->name, x->value, x->size);
    char *first auto_free = again ? tree_path(inode->shown) : NULL;
    if (again)
        archive_entry_set_hardlink(entry, first);
    int rc = archive_write_header(out, entry);
    archive_entry_free(entry);
    return rc == ARCHIVE_OK || rc == ARCHIVE_WARN
               ? 0
               : err_sys(e, archive_errno(out), "write the archive");
}

int layer_write_data(struct archive *out, const void *data, size_t len, struct err *e)
{
    return archive_write_data(out, data, len) == (la_ssize_t)len
               ? 0
               : err_sys(e, archive_errno(out), "write the archive");
}

static int copy_contents(struct archive *in, struct archive *out, int64_t size, struct err *e)
{
    static char block[BLOCK_BYTES];
    for (int64_t left = size; left > 0;) {
        size_t want = left < BLOCK_BYTES ? (size_t)left : BLOCK_BYTES;
        la_ssize_t n = archive_read_data(in, block, want);
        if (n <= 0)
            return err_set(e, ERR_INVALID, "it is damaged or ends too early");
        if (layer_write_data(out, block, (size_t)n, e) < 0)
            return -1;
        left -= n;
    }
    return 0;
}

int layer_write_files(const char *path, int number, struct tree_inode *const *wanted,
                      struct archive *out, struct err *e)
{
    struct archive *in = *wanted ? open_archive(path, e) : NULL;
    struct archive_entry *entry;
    int result = *wanted && !in ? -1 : 0, more = 1;
    for (int64_t at = 0; result == 0 && *wanted && more > 0; at++) {
        more = next_entry(in, &entry, e);
        if (more <= 0)
            result = err_set(e, ERR_INVALID, "it has fewer entries than before");
        else if ((*wanted)->entry == at && (layer_write_header(out, (*wanted)->shown, e) < 0 ||
                                            copy_contents(in, out, (*wanted)->size, e) < 0))
            result = -1;
        else if ((*wanted)->entry == at)
            wanted++;
    }
    if (in)
        archive_read_free(in);
    return result < 0 ? err_wrap(e, "layer %d", number) : 0;
}
