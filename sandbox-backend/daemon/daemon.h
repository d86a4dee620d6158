// SPDX-License-Identifier: Apache-2.0
// cubbyd: the sandboxes of one home, and the HTTP server that serves them (front.h).
//
// Theory of operation. One libuv loop, no threads. A request is either for a port of a sandbox
// (route.h) and passed on to it (proxy.h), or for the control plane (api.h), where gate.h says who
// may ask. The store (store.h)
// owns the sandboxes; create.h makes one, ending.h is the only way out, pause.h stops and wakes
// one, adopt.h finds those of an earlier daemon, expiry.h ends or pauses those whose time is over.
// What makes a place to run is the driver (drivers/driver.h), which is handed in: nothing here
// knows what a machine is.
//
// Life: lock the home, adopt what an earlier daemon left, listen, serve. It ends in one of two
// ways:
//  - END (SIGTERM, SIGINT, SIGHUP): stop listening, cut every connection, end every sandbox, and
//    leave neither process nor file of them.
//  - LEAVE (SIGUSR1, or the signals above with --keep): stop listening, let go of the machines,
//  which
//    run on. The next daemon adopts them, as it does after this one was killed with SIGKILL.
//    A time to live is not watched in between; what is overdue then ends when it is adopted.
// One lock file (<home>/cubbyd.lock) makes sure that a home has one daemon. It says when that is
// on its end, too, as nobody listens then.
#pragma once
#include <stdbool.h>
#include <uv.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/daemon/front.h"
#include "sandbox-backend/daemon/pool_plan.h"
#include "sandbox-backend/daemon/ports_place.h"
#include "sandbox-backend/daemon/store.h"

struct daemon_opts {
    const char *home; // absolute
    int lock;         // of the home (home_lock.h); the caller's
    const struct driver *driver;
    struct driver_jail jail;
    struct store_limits limits;
    struct secrets_opts secrets;
    struct front_opts front;
    struct ports_opts ports;
    struct pool_plan *pool; // becomes the daemon's
    const char *domain;     // of the answers to create; NULL: clients use their own
    int ready_fd;           // gets "ready\n" when it listens, then is closed; -1 for none
    bool keep;
};

// Serves until a signal ends it. Closes all it has opened. 0, or -1 with `e` set.
int daemon_run(const struct daemon_opts *opts, struct err *e);
