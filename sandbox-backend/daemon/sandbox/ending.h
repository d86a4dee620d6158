// SPDX-License-Identifier: Apache-2.0
// The end of a sandbox, for any reason. Only this module takes a sandbox apart.
//
//  1. The state is KILLING, which callers cannot see. Cut the proxied streams without a clean end,
//     from which the SDKs learn that the sandbox ended. Cancel the operation in the slot
//     (operation.h), and the daemon's own requests to the guest.
//  2. Kill the machine (SIGKILL), and close the connections to it, both at once.
//  3. Wait until the machine and the connections are gone, all waiting requests (operation_wish)
//     have been called, and no hold is left. Then write the ended log and remove the directory, in
//     steps if it is large (files.h).
//  4. Close the timer. The state is DEAD. Free the sandbox and call on_ended.
#pragma once
#include "sandbox-backend/daemon/sandbox/ended_log.h"

struct machine;
struct sandbox;
struct store;

// End a sandbox, from any state before KILLING. Never completes inside the call. sb->on_ended, if
// it is set, is called after everything is gone. `detail` may be NULL; copied.
void ending_start(struct sandbox *sb, enum ended_why why, const char *detail);

// Keep the sandbox and its directory until ending_unhold, for work that is under way.
void ending_hold(struct sandbox *sb);
void ending_unhold(struct sandbox *sb); // never frees it inside the call

// End a second machine of a sandbox that is being ended (a rollback has two). Kill it, or release
// it if the sandbox's own machine is released.
void ending_machine(const struct sandbox *sb, struct machine *m, void (*on_gone)(void *ctx),
                    void *ctx);
// Do step 3 if nothing is left to wait for.
void ending_advance(struct sandbox *sb);

// The machine's exit callback (driver.h), with the sandbox as ctx.
void ending_on_exit(struct machine *m, const char *reason, void *ctx);
// Copy the last lines of the machine's logs into the daemon's log, before the sandbox's directory
// is removed.
void ending_log_tails(const struct sandbox *sb);

// End every sandbox, because the daemon stops. With `leave`, release the machines of sandboxes
// whose creation is complete, so that the next daemon can adopt them.
void ending_all(struct store *store, bool leave);
