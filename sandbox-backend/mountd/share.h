// SPDX-License-Identifier: Apache-2.0
// The directory that cubby-mountd serves, its open files, and what a guest may do with them.
//
// Every path is resolved by openat2(2) below the root, without any symbolic link (RESOLVE_BENEATH,
// RESOLVE_NO_SYMLINKS): the guest's kernel follows links itself, inside the guest. A last name is
// never followed. Only regular files are opened, and only files, directories and links are made.
// Hidden names do not exist for the guest, and it cannot make them. Set-user-id bits are dropped.
//
// A volume (docs/mounts.md) belongs to sandboxes and to no project of the host. So nothing of the
// user is hidden in it, and it has a limit, which share_space.c keeps.
//
// A function that serves a request returns 0, or a positive errno, which the guest's program sees.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/mountd/rules.h"
#include "sandbox-backend/mountd/wire.h"
#include "sandbox-backend/volume/space.h"

struct share {
    int root; // owned
    bool read_only;
    uid_t uid;                 // whose files are shown as the guest user's
    const struct space *space; // borrowed; of a volume. NULL: a directory of the host
    struct rules rules;
    struct handle {
        int fd;     // owned; -1: closed
        char *path; // owned; of a directory, which decides what is hidden in it. NULL: a file
        bool appends;
    } handles[MOUNT_HANDLES_MAX];
};

// A request that was checked: `path` is a valid path, and not hidden.
struct request {
    const struct mount_request *head;
    const char *path;
    const char *more; // `head->more_len` bytes
};

// Serve a directory, whose descriptor the share takes. Reads its RULES_FILE, unless it is a volume
// with this space.
int share_init(struct share *s, int root, bool read_only, const struct space *space, struct err *e);
void share_fini(struct share *s);

// Return whether a path has the form that wire.h demands.
bool share_path_is_valid(const char *path, size_t len);

// Serve one request. What the answer has is added to `out`; *flags are those of the answer.
int share_serve(struct share *s, const struct request *r, struct buf *out, uint32_t *flags);

// ---- for the files of this room

// Open a path below the root. Return a descriptor, or -1 with errno.
int share__open(const struct share *s, const char *path, int flags, mode_t mode);
// Open the directory of the last name of a path, and set *name to that name; "." for the root.
int share__parent(const struct share *s, const char *path, const char **name);
void share__attr(const struct share *s, const struct stat *st, struct mount_facts *out);
int share__answer_stat(const struct share *s, const struct stat *st, struct buf *out);
int share__answer_path(const struct share *s, const char *path, struct buf *out);
// Return the open handle of a request, or NULL.
struct handle *share__handle(struct share *s, const struct request *r);
// Close what the number has and put a descriptor there, which the handle takes.
struct handle *share__take(struct share *s, uint32_t number, int *fd);

// Return whether the path is that of the rules, which a guest only reads.
// share_git.c: return whether the guest may make a file or a link of this name, change the file of
// this name, or move a name to another one.
static inline bool share__is_rules(const struct share *s, const char *path)
{
    return !s->space && strcmp(path, RULES_FILE) == 0;
}
bool share__git_may_make(const struct share *s, const char *path);
bool share__git_may_write(const struct share *s, const char *path);
bool share__git_may_move(const struct share *s, const char *from, bool is_dir, const char *to);

typedef int share_op(struct share *s, const struct request *r, struct buf *out, uint32_t *flags);

// share_space.c: serve a request that changes a volume, within its limit.
int share__serve_within(struct share *s, const struct request *r, struct buf *out, uint32_t *flags,
                        share_op *serve);
// Remove a file or a link, or prepare that another name takes its place: a file of a volume that is
// in use gets a name in REMOVED_DIR. *hold is a descriptor to close afterwards, or -1. Each returns
// 0, or -1 with errno.
int share__remove(const struct share *s, int dir, const char *name);
int share__replace(const struct share *s, int dir, const char *name, int *hold);
// Return the bits that a mode has in any case: cubbyd must be able to use and remove the files of a
// volume.
mode_t share__mode_least(const struct share *s, bool is_dir);

// share_files.c: open files
share_op share__op_open, share__op_create, share__op_read, share__op_write, share__op_release,
    share__op_fsync, share__op_allocate, share__op_seek, share__op_change;
// share_dirs.c: directories and names
share_op share__op_opendir, share__op_readdir, share__op_list, share__op_mkdir, share__op_unlink,
    share__op_rmdir, share__op_rename, share__op_symlink, share__op_link, share__op_readlink;
