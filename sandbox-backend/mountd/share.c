// SPDX-License-Identifier: Apache-2.0
// The directory that cubby-mountd serves: paths, and the table of operations.
#include "sandbox-backend/mountd/share.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/param.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/volume/removed.h"

// O_LARGEFILE, which the C library defines as 0, but openat2(2) needs (asm/fcntl.h).
#if defined(__aarch64__)
#define LARGE_FILE 0400000
#else
#define LARGE_FILE 0100000
#endif

// ---- paths

bool share_path_is_valid(const char *path, size_t len)
{
    if (len >= PATH_MAX || memchr(path, '\0', len))
        return false;
    for (size_t at = 0; at < len || (at && at == len);) {
        const char *slash = memchr(path + at, '/', len - at);
        size_t name = slash ? (size_t)(slash - path) - at : len - at;
        bool dots = name <= 2 && memcmp(path + at, "..", name) == 0;
        if (name == 0 || name > NAME_MAX || dots)
            return false;
        at += name + 1;
    }
    return true;
}

int share__open(const struct share *s, const char *path, int flags, mode_t mode)
{
    int large = flags & O_PATH ? 0 : LARGE_FILE;
    const struct open_how how = {.flags = (unsigned)(flags | O_CLOEXEC | large),
                                 .mode = flags & O_CREAT ? mode : 0,
                                 .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
                                            RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV};
    return (int)syscall(SYS_openat2, s->root, *path ? path : ".", &how, sizeof how);
}

int share__parent(const struct share *s, const char *path, const char **name)
{
    char dir[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t len = slash ? (size_t)(slash - path) : 0;
    *name = slash ? slash + 1 : *path ? path : ".";
    memcpy(dir, path, len);
    dir[len] = '\0';
    return share__open(s, dir, O_PATH | O_DIRECTORY, 0);
}

struct handle *share__handle(struct share *s, const struct request *r)
{
    uint32_t number = r->head->handle;
    struct handle *h = number < MOUNT_HANDLES_MAX ? &s->handles[number] : NULL;
    return h && h->fd >= 0 ? h : NULL;
}

static void handle_close(struct handle *h)
{
    mem_close_fd(&h->fd);
    free(h->path);
    *h = (struct handle){.fd = -1};
}

struct handle *share__take(struct share *s, uint32_t number, int *fd)
{
    struct handle *h = &s->handles[number];
    handle_close(h);
    h->fd = steal_fd(fd);
    return h;
}

int share__op_release(struct share *s, const struct request *r, struct buf *out, uint32_t *flags)
{
    (void)out;
    (void)flags;
    struct handle *h = share__handle(s, r);
    if (h)
        handle_close(h);
    return 0;
}

// ---- attributes

void share__attr(const struct share *s, const struct stat *st, struct mount_facts *out)
{
    *out = (struct mount_facts){.ino = st->st_ino,
                                .size = (uint64_t)st->st_size,
                                .blocks = (uint64_t)st->st_blocks,
                                .atime_s = st->st_atim.tv_sec,
                                .mtime_s = st->st_mtim.tv_sec,
                                .ctime_s = st->st_ctim.tv_sec,
                                .atime_ns = (uint32_t)st->st_atim.tv_nsec,
                                .mtime_ns = (uint32_t)st->st_mtim.tv_nsec,
                                .ctime_ns = (uint32_t)st->st_ctim.tv_nsec,
                                .mode = st->st_mode,
                                .nlink = (uint32_t)st->st_nlink,
                                .owned = st->st_uid == s->uid};
}

int share__answer_stat(const struct share *s, const struct stat *st, struct buf *out)
{
    struct mount_facts attr;
    share__attr(s, st, &attr);
    buf_add(out, &attr, sizeof attr);
    return 0;
}

int share__answer_path(const struct share *s, const char *path, struct buf *out)
{
    const char *name;
    struct stat st;
    int dir auto_close = share__parent(s, path, &name);
    if (dir < 0 || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno;
    return share__answer_stat(s, &st, out);
}

static int op_stat(struct share *s, const struct request *r, struct buf *out, uint32_t *flags)
{
    (void)flags;
    struct stat st;
    const struct handle *h = share__handle(s, r);
    if (!(r->head->how & MOUNT_BY_HANDLE))
        return share__answer_path(s, r->path, out);
    if (!h)
        return ESTALE;
    return fstat(h->fd, &st) < 0 ? errno : share__answer_stat(s, &st, out);
}

// Show the limit of a volume as the size of its file system.
static void limit_space(const struct share *s, struct statvfs *st)
{
    if (space_is_doubted(s->space) && space_may_err(s->space) && space_lock(s->space)) {
        removed_measure(s->space, s->root);
        space_unlock(s->space);
    }
    int64_t left = MAX(s->space->limit - space_used(s->space), 0);
    fsblkcnt_t blocks = (fsblkcnt_t)s->space->limit / st->f_frsize;
    fsblkcnt_t available = (fsblkcnt_t)left / st->f_frsize;
    st->f_blocks = blocks;
    st->f_bavail = MIN(st->f_bavail, available);
    st->f_bfree = st->f_bavail;
}

static int op_statfs(struct share *s, const struct request *r, struct buf *out, uint32_t *flags)
{
    (void)r;
    (void)flags;
    struct statvfs st;
    if (fstatvfs(s->root, &st) < 0)
        return errno;
    if (s->space)
        limit_space(s, &st);
    const struct mount_space space = {.block = st.f_frsize,
                                      .blocks = st.f_blocks,
                                      .free = st.f_bfree,
                                      .available = st.f_bavail,
                                      .files = st.f_files,
                                      .files_free = st.f_ffree,
                                      .name_max = st.f_namemax};
    buf_add(out, &space, sizeof space);
    return 0;
}

// ---- the table

static const struct {
    share_op *serve;
    bool changes; // refused when the mount is read-only
} OPS[MOUNT_OP_END] = {
    [MOUNT_STAT] = {op_stat, false},
    [MOUNT_LIST] = {share__op_list, false},
    [MOUNT_OPEN] = {share__op_open, false}, // checks the access mode itself
    [MOUNT_CREATE] = {share__op_create, true},
    [MOUNT_OPENDIR] = {share__op_opendir, false},
    [MOUNT_READ] = {share__op_read, false},
    [MOUNT_WRITE] = {share__op_write, true},
    [MOUNT_READDIR] = {share__op_readdir, false},
    [MOUNT_RELEASE] = {share__op_release, false},
    [MOUNT_FSYNC] = {share__op_fsync, false},
    [MOUNT_ALLOCATE] = {share__op_allocate, true},
    [MOUNT_SEEK] = {share__op_seek, false},
    [MOUNT_MKDIR] = {share__op_mkdir, true},
    [MOUNT_UNLINK] = {share__op_unlink, true},
    [MOUNT_RMDIR] = {share__op_rmdir, true},
    [MOUNT_RENAME] = {share__op_rename, true},
    [MOUNT_SYMLINK] = {share__op_symlink, true},
    [MOUNT_LINK] = {share__op_link, true},
    [MOUNT_READLINK] = {share__op_readlink, false},
    [MOUNT_CHANGE] = {share__op_change, true},
    [MOUNT_STATFS] = {op_statfs, false},
};

int share_serve(struct share *s, const struct request *r, struct buf *out, uint32_t *flags)
{
    uint16_t op = r->head->op;
    if (op >= MOUNT_OP_END || !OPS[op].serve)
        return ENOSYS;
    if (s->read_only && OPS[op].changes)
        return EROFS;
    // A guest cannot make what it cannot see, nor change the rules by which it sees.
    if (rules_hide(&s->rules, r->path))
        return op == MOUNT_CREATE || op == MOUNT_MKDIR || op == MOUNT_SYMLINK ? EACCES : ENOENT;
    if (OPS[op].changes && share__is_rules(s, r->path))
        return EACCES;
    bool truncates = op == MOUNT_OPEN && r->head->flags & O_TRUNC && !s->read_only;
    return s->space && (OPS[op].changes || truncates)
               ? share__serve_within(s, r, out, flags, OPS[op].serve)
               : OPS[op].serve(s, r, out, flags);
}

// ---- the beginning and the end

static int read_rules(struct share *s, struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    struct err ignored = ERR_INIT;
    if (s->space)
        return rules_add(&s->rules, "/" REMOVED_DIR, strlen("/" REMOVED_DIR), e);
    if (rules_add(&s->rules, RULES_DEFAULT, strlen(RULES_DEFAULT), e) < 0)
        return -1;
    int fd auto_close = share__open(s, RULES_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
    if (fd < 0)
        return errno == ENOENT ? 0 : err_sys(e, errno, "read %s of the directory", RULES_FILE);
    if (fd_read_all(fd, RULES_BYTES_MAX, &text, &ignored) < 0)
        return err_set(e, ERR_INVALID, "%s of the directory cannot be read: %s", RULES_FILE,
                       ignored.msg);
    return rules_add(&s->rules, text.data ? text.data : "", text.len, e);
}

int share_init(struct share *s, int root, bool read_only, const struct space *space, struct err *e)
{
    *s = (struct share){.root = root, .read_only = read_only, .uid = geteuid(), .space = space};
    for (size_t i = 0; i < ARRAY_LEN(s->handles); i++)
        s->handles[i].fd = -1;
    umask(0);
    return read_rules(s, e);
}

void share_fini(struct share *s)
{
    for (size_t i = 0; i < ARRAY_LEN(s->handles); i++)
        handle_close(&s->handles[i]);
    rules_fini(&s->rules);
    mem_close_fd(&s->root);
}
