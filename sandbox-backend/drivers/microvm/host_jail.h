// SPDX-License-Identifier: Apache-2.0
// Which walls of a jail this host can build, and which the daemon wants.
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/drivers/driver.h"
#include "sandbox-backend/jail/walls.h"

// Begins to look, in a thread, as it takes some tens of milliseconds; with `required` it waits for
// what comes out, and ERR_PRECONDITION names the walls that are missing and what to do. To be
// called once, before all others.
int host_jail_open(const struct driver_jail *wanted, struct err *e);
void host_jail_close(void);

// What processes are put behind, as bits; 0: nothing, as no jail is wanted (or host_jail_open was
// not called: a program that builds templates). Waits for what host_jail_open has begun.
unsigned host_jail_walls(void);
bool host_jail_is_on(void);
bool host_jail_ends_with_daemon(void);
// Those that there would be, of a jail that is not switched off, and that this host cannot build.
unsigned host_jail_missing(void);

// ---- for whoever only wants to know (cubby doctor)
struct host_walls {
    unsigned built, missing;
    bool is_root;
    int landlock_abi;
    char *why[WALL_COUNT]; // owned; of those that are missing
};
int host_walls_look(struct host_walls *out, struct err *e); // blocks for some milliseconds
void host_walls_fini(struct host_walls *w);
// What to do about a wall that is missing.
const char *host_wall_remedy(enum wall wall);
