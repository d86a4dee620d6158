// SPDX-License-Identifier: Apache-2.0
// One mount of a sandbox. For the files of this folder.
#pragma once
#include <sys/queue.h>
#include <uv.h>

#include "sandbox-backend/daemon/mounts/mounts.h"
#include "sandbox-backend/daemon/volumes/volumes.h"
#include "sandbox-backend/drivers/host/subproc.h"
#include "sandbox-backend/mountd/wire.h"
#include "sandbox-backend/net/deadline.h"

enum mount_state {
    MOUNT_IDLE,    // nothing is under way: the sandbox does not run, or a retry is due
    MOUNT_PUTS,    // step 1
    MOUNT_STARTS,  // step 2
    MOUNT_SERVES,  // step 3: cubby-mountd runs
    MOUNT_CLOSING, // its handles close, then it is freed
};

struct mount {
    LIST_ENTRY(mount) link;
    struct sandbox *sb; // borrowed; NULL when it is closing
    enum mount_state state;
    char *source, *target;      // owned
    char *volume;               // owned; the id; NULL: a directory of the host
    struct volume_space *space; // a reference; the volume's room; NULL: not served yet
    struct mount_identity is;   // of the source, if it is no volume
    bool read_only;
    bool ends;   // the guest is told to unmount, then this is forgotten
    bool absent; // nothing listens in the guest, so the steps begin with 1
    bool ready;  // cubby-mountd has said so since it was started
    unsigned char token[MOUNT_TOKEN_BYTES];
    int port;
    int failures;         // in a row: a server that served long ends the row
    int64_t ready_ms;     // when the server said so
    int64_t log_ready_ms; // when the log got this event last; 0: never
    int64_t log_failed_ms;
    struct guest_call *call;
    struct subproc *server; // owned; NULL: none
    uv_pipe_t *says;        // owned; stdout of the server
    int log;                // its stderr; -1: none
    struct deadline retry;  // in MOUNT_SERVES: until the server has to be ready
    struct err err;         // the last failure
    mounts_cb cb;           // NULL: nobody waits
    void *ctx;
    char line[16]; // what the server said
};
LIST_HEAD(mount_list, mount);

// The list of a sandbox: struct sandbox holds a pointer to it.
struct mounts {
    struct mount_list list;
};

struct mount *mount__new(struct sandbox *sb, const char *source, const char *target);
void mount__begin_later(struct mount *m); // step 1, from the loop
void mount__serve(struct mount *m);       // step 3
// End everything of the mount, call its caller back with `e`, and free it later.
void mount__close(struct mount *m, const struct err *e);
