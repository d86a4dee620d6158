// SPDX-License-Identifier: Apache-2.0
// Find the walls of a jail that this host can build, and choose the walls to use.
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/drivers/driver.h"
#include "sandbox-backend/jail/jail.h"

// Start a thread that finds out which walls this host can build, which takes some tens of
// milliseconds. With `required`, wait for the result: ERR_PRECONDITION names the walls that are
// missing and what to do. Call this once, before all other functions.
// warm: called in the thread afterwards, or NULL. It does work for which the first machine would
// otherwise wait (program_files of its programs).
int host_jail_open(const struct driver_jail *wanted, void (*warm)(void), struct err *e);
void host_jail_close(void);

// Return the walls of each process's jail, as bits. 0: no jail is wanted, or the program has not
// called host_jail_open (a template build does not). Waits for the thread of host_jail_open.
unsigned host_jail_walls(void);
bool host_jail_is_on(void);
bool host_jail_ends_with_daemon(void);
bool host_jail_wants_spares(void); // spares.h
// Return the walls that this host cannot build; 0 if the jail is switched off.
unsigned host_jail_missing(void);

// ---- for cubby doctor
struct host_walls {
    unsigned built, missing;
    bool is_root;
    int landlock_abi;
    char *why[WALL_COUNT]; // owned; the reason for each missing wall, else NULL
};
int host_walls_look(struct host_walls *out, struct err *e); // blocks for some milliseconds
void host_walls_fini(struct host_walls *w);
// Return what to do about a missing wall. Literal.
const char *host_wall_remedy(enum wall wall);
