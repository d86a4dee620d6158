// SPDX-License-Identifier: Apache-2.0
// The options of cubbyd: flags, environment and $CUBBY_HOME/cubbyd.json, checked as far as possible
// before the home is opened, so that the person who starts the daemon is told what is wrong.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/daemon/builds/builds.h"
#include "sandbox-backend/daemon/listeners.h"
#include "sandbox-backend/daemon/peers/peers.h"
#include "sandbox-backend/daemon/pool/pool.h"
#include "sandbox-backend/daemon/proxy/ports.h"
#include "sandbox-backend/daemon/sandbox/store.h"

struct options {
    struct store_limits limits;
    struct listeners_opts listeners;
    struct ports_opts ports;
    struct secrets_opts secrets;
    struct driver_jail jail;
    const char *tier, *tiers_allowed; // tier.h
    struct pool_plan pool;            // taken by pool_open
    struct builds_opts builds;
    const char *keys; // file of the API keys; NULL: keys.json in the home
    struct peers_opts peers;
    const char *node;   // name of this node in a fleet; NULL: none
    const char *agent;  // address of the proxy's agent (agent.h); NULL: none
    const char *domain; // of the answers to create; NULL: clients use their own
    int ready_fd;       // gets "ready\n" when the daemon listens, then is closed; -1: none
    bool keep;          // leave sandboxes running when the daemon is stopped
};

// Return the options of this process, or NULL with `e` set. *done: --help or --version was asked
// for and has been printed.
struct options *options_read(int argc, char **argv, bool *done, struct err *e);
void options_free(void); // also after a failure
