// SPDX-License-Identifier: Apache-2.0
// The requests of the guest's kernel (fuse_lowlevel.h), answered with the host's help.
#pragma once
#include "sandbox-backend/guest/mountfs/host.h"

// Whose files the host's user's are in the guest. All other owners are shown as nobody.
void fs_init(uid_t uid, gid_t gid);
extern const struct fuse_lowlevel_ops FS_OPS;

// ---- for the files of this program

// Answer with an error, unless the kernel's request was answered already.
void fs__fail(struct call *c, int error);
// Convert an answer's attributes. False: the answer is too short.
bool fs__attr(const struct answer *a, struct stat *out);
void fs__stat(const struct mount_facts *attr, struct stat *out);
// Answer a look-up with a node, or with that there is none (`attr` NULL), as seen at an instant.
void fs__entry(fuse_req_t req, struct node *parent, const char *name,
               const struct mount_facts *attr, int64_t seen_ms);
// Begin a call for a name below a node. NULL: the request was answered with an error.
struct call *fs__call_below(uint16_t op, fuse_req_t req, fuse_ino_t parent, const char *name,
                            char path[PATH_MAX],
                            void (*done)(struct call *c, const struct answer *a));
struct node *fs__node(fuse_ino_t ino);
double fs__fresh_s(int64_t seen_ms); // for how long the kernel may use what was seen then

// fs_files.c
void fs__open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void fs__create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
                struct fuse_file_info *fi);
void fs__read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi);
void fs__write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size, off_t off,
               struct fuse_file_info *fi);
void fs__release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void fs__fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi);
void fs__fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t off, off_t len,
                   struct fuse_file_info *fi);
void fs__lseek(fuse_req_t req, fuse_ino_t ino, off_t off, int whence, struct fuse_file_info *fi);
// fs_dirs.c
void fs__opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void fs__readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
                     struct fuse_file_info *fi);
void fs__readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi);
void fs__mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode);
void fs__unlink(fuse_req_t req, fuse_ino_t parent, const char *name);
void fs__rmdir(fuse_req_t req, fuse_ino_t parent, const char *name);
void fs__symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name);
void fs__rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t to,
                const char *new_name, unsigned flags);
void fs__link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name);
void fs__readlink(fuse_req_t req, fuse_ino_t ino);
