// SPDX-License-Identifier: Apache-2.0
// The protocol between cubby-mountd on the host and mountfs in a guest.
//
// The host connects, but the guest asks: cubby-mountd reaches the guest's port through vm.net, says
// mount_hello, and then answers requests in the order in which they arrive. A request names files
// by their path below the mount, so cubby-mountd keeps no state but open files, and mountfs numbers
// these itself. All other state is in the guest's memory, which pauses, images and forks carry. So
// mountfs continues with any later cubby-mountd: it opens its files again and sends the requests
// without an answer once more, marked MOUNT_RETRY.
//
// All integers are little-endian, and both sides are of one kind of processor.
#pragma once
#include <limits.h>
#include <stdint.h>

#include "sandbox-backend/base/limits.h"

#define MOUNT_MAGIC   0x744d6243u // "CbMt"
#define MOUNT_VERSION 1
// The environment of mountfs.
#define MOUNT_TOKEN_NAME  "CUBBY_MOUNT_TOKEN" // the token, as hex digits
#define MOUNT_FUSE_NAME   "CUBBY_MOUNT_FUSE"  // the descriptor of a mount that was made for it
#define MOUNT_TOKEN_BYTES 32

#define MOUNT_DATA_MAX    (1 << 20)    // of one read or write
#define MOUNT_LIST_MAX    (512 * 1024) // of one list of a directory
#define MOUNT_PREFETCH    (64 * 1024)  // a file of at most this size comes with its open
#define MOUNT_HANDLES_MAX 2048         // files and directories that are open at once

// Host to guest, first.
struct mount_hello {
    uint32_t magic, version;
    uint32_t flags; // of MOUNT_HELLO_*
    uint32_t reserved;
    unsigned char token[MOUNT_TOKEN_BYTES]; // mountfs serves no one else
};
#define MOUNT_HELLO_END 1u // unmount the file system and end; no request follows

// Guest to host, the answer. A wrong token is answered by the end of the connection.
struct mount_welcome {
    uint32_t magic, version;
};

enum mount_op {
    MOUNT_STAT = 1, // path, or handle: mount_facts
    MOUNT_LIST,     // path of a directory: mount_entry...; flags of the answer say if all are there
    MOUNT_OPEN,     // path, handle, flags (open(2)'s): mount_facts, contents of a small file
    MOUNT_CREATE,   // path, handle, flags, mode: mount_facts
    MOUNT_OPENDIR,  // path, handle
    MOUNT_READ,     // handle, offset, size: bytes
    MOUNT_WRITE,    // handle, offset, more, flags (O_APPEND): nothing; all bytes were written
    MOUNT_READDIR,  // handle, offset: mount_entry...; none: the end
    MOUNT_RELEASE,  // handle; has no answer
    MOUNT_FSYNC,    // handle, size: 1 for the data only
    MOUNT_ALLOCATE, // handle, offset, size, mode (fallocate(2)'s)
    MOUNT_SEEK,     // handle, offset, mode (SEEK_DATA or SEEK_HOLE): uint64_t
    MOUNT_MKDIR,    // path, mode: mount_facts
    MOUNT_UNLINK,   // path
    MOUNT_RMDIR,    // path
    MOUNT_RENAME,   // path, more: the new path; flags (renameat2(2)'s)
    MOUNT_SYMLINK,  // path, more: the link's contents: mount_facts
    MOUNT_LINK,     // path, more: the new path: mount_facts
    MOUNT_READLINK, // path: bytes
    MOUNT_CHANGE,   // path, or handle; mask of MOUNT_SET_*: mount_facts
    MOUNT_STATFS,   // mount_space
    MOUNT_OP_END
};

#define MOUNT_RETRY     1u // an earlier cubby-mountd may have done this already
#define MOUNT_BY_HANDLE 2u // the handle names the file, not the path

#define MOUNT_SET_MODE  1u
#define MOUNT_SET_SIZE  2u
#define MOUNT_SET_ATIME 4u
#define MOUNT_SET_MTIME 8u // a time with nanoseconds of UTIME_NOW is the host's

// A request: this head, `path_len` bytes of a path, `more_len` further bytes. A path has no empty
// name, no "." and no ".."; the empty path is the mount's root.
struct mount_request {
    uint64_t id;
    uint64_t offset, size;
    int64_t atime_s, mtime_s;
    uint32_t atime_ns, mtime_ns;
    uint32_t handle; // chosen by mountfs, below MOUNT_HANDLES_MAX
    uint32_t flags;
    uint32_t mode;
    uint32_t mask;
    uint16_t op;
    uint16_t how; // of MOUNT_RETRY, MOUNT_BY_HANDLE
    uint32_t path_len;
    uint32_t more_len;
    uint32_t reserved;
};

struct mount_answer {
    uint64_t id;
    uint32_t error; // errno of Linux, 0: success
    uint32_t flags; // of MOUNT_ALL
    uint32_t len;   // bytes that follow; none after an error
    uint32_t reserved;
};
#define MOUNT_ALL 1u // the list has every name of the directory

#define MOUNT_ANSWER_MAX (MOUNT_DATA_MAX + sizeof(struct mount_answer) + 4096)

struct mount_facts {
    uint64_t ino, size, blocks; // blocks of 512 bytes
    int64_t atime_s, mtime_s, ctime_s;
    uint32_t atime_ns, mtime_ns, ctime_ns;
    uint32_t mode, nlink;
    uint32_t owned; // 1: the file belongs to the user of cubby-mountd
};

// Followed by `name_len` bytes of a name, and by as many as make the whole a multiple of 8.
struct mount_entry {
    struct mount_facts attr; // of "." and "..": ino and mode only
    uint64_t next;           // the offset after this entry
    uint32_t name_len;
    uint32_t reserved;
};

struct mount_space {
    uint64_t block, blocks, free, available, files, files_free;
    uint64_t name_max;
};

static inline uint32_t mount_padded(uint32_t len)
{
    return (len + 7u) & ~7u;
}
