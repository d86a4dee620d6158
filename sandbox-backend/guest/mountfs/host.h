// SPDX-License-Identifier: Apache-2.0
// The host's end of a mount: requests to cubby-mountd, and what happens while there is none.
//
// cubby-mountd connects to this program's port and shows the token. Requests are sent in order and
// answered in order. When the connection is lost, requests wait, for at most HOST_ABSENT_MS; then
// they fail with ENOTCONN, and so do new ones until a cubby-mountd is back. After HOST_GONE_MS the
// program unmounts and ends: its sandbox may be a copy that has no mounts. The clock is the
// guest's, which stands still while the guest is paused.
//
// After a new connection the open files are opened again, then the requests without an answer are
// sent once more, in their order, marked MOUNT_RETRY.
#pragma once
#define FUSE_USE_VERSION 314
#include <fuse3/fuse_lowlevel.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/guest/mountfs/node.h"
#include "sandbox-backend/mountd/wire.h"

#define HOST_ABSENT_MS 30000
#define HOST_GONE_MS   90000

struct answer {
    int error; // errno; the rest is empty then
    uint32_t flags;
    const char *data; // borrowed
    size_t len;
};

// A request on its way. Its maker frees what `node`, `other` and `handle` need in `done`, which is
// called exactly once.
struct call {
    TAILQ_ENTRY(call) link;
    struct mount_request head;
    struct buf frame; // owned
    fuse_req_t req;   // NULL: of this program itself, or answered already
    void (*done)(struct call *c, const struct answer *a);
    struct node *node, *other; // referenced (node_ref), or NULL
    char *name, *new_name;     // owned, or NULL
    struct open_file *file;    // borrowed
    unsigned generation;       // of `node` when it was sent
    size_t size;               // of the kernel's buffer
    int64_t sent_ms;
};

// A file or directory that the guest has open.
struct open_file {
    LIST_ENTRY(open_file) link;
    uint32_t number;   // its handle
    struct node *node; // referenced
    int flags;         // open(2)'s
    bool is_dir;
    bool is_open; // its first request was answered with success
    // Owned; the contents of a small file, or a part of a directory as mount_entry..., or NULL.
    char *data;
    size_t len;
    int64_t read_ms;
    unsigned generation; // of a file's node when `data` was read
    bool plus;           // of a directory: the kernel wants attributes with the names
    uint64_t offset;     // of a directory: that of the entry at data + at
    size_t at;
};

int64_t host_now_ms(void);

// Begin: take over a listening socket. `token`: MOUNT_TOKEN_BYTES.
void host_init(int listener, const unsigned char *token);
// Send a request for a path, with further bytes. Takes the call.
void host_send(struct call *c, const char *path, const void *more, size_t more_len);
// Give up a call that was not sent: it is done with this error.
void host_drop(struct call *c, int error);
// Send a request that has no answer, if there is a connection.
void host_tell(const struct mount_request *head);
struct call *host_call(uint16_t op, fuse_req_t req, struct node *node,
                       void (*done)(struct call *c, const struct answer *a));
// Return a new open file, or NULL: too many.
struct open_file *host_file_new(struct node *node, int flags, bool is_dir);
void host_file_free(struct open_file *f);

// ---- the loop of main.c
bool host_is_ended(void); // the host wants the end
bool host_is_full(void);  // take no more requests of the kernel for now
int host_wait_ms(void);   // until host_serve must be called; -1: no time
// Fill in HOST_POLLED descriptors to poll. Return how many.
#define HOST_POLLED 3
struct pollfd;
int host_poll(struct pollfd *out);
void host_serve(void);
