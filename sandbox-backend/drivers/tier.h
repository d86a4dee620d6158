// SPDX-License-Identifier: Apache-2.0
// The choice of a tier: the driver in which a new sandbox runs.
//
// A tier has the name of its driver. A request names a tier, or leaves the choice to the operator.
// The operator names a tier (cubbyd --tier), or leaves the choice to `auto`. `auto` takes the
// driver with the highest rank for the template on this host (enum driver_rank): a microVM under
// KVM, else gVisor, else a microVM under emulation. Each answer about a sandbox names its tier. If
// `auto` has chosen the tier, the answer to the create also has one sentence with the reason.
//
// A driver may have no ranks (driver.rank is NULL). `auto` takes such a driver for exactly the
// templates whose template.json names it as their "driver". A driver that shares the host's kernel
// with its sandboxes (driver.must_be_allowed) is taken only if the operator's list names it, and
// for a caller with an API key only if the key's own list names it, too.
#pragma once
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/drivers/driver.h"

#define TIER_AUTO "auto"

// Set the operator's choice. usual: a tier or TIER_AUTO. allowed: the tiers that new sandboxes may
// have, comma separated; NULL: only `usual`, or, if that is TIER_AUTO, each tier whose driver has
// ranks.
// ERR_INVALID names the option and the existing tiers. Existing machines and snapshots keep their
// tier.
int tiers_set(const char *usual, const char *allowed, struct err *e);

// If the operator leaves the choice to `auto`, make that choice for the template "default" now. The
// drivers remember the slow results, so the first create does not wait for them. drivers_open calls
// this before the daemon serves.
void tiers_prepare(const char *home);

// The tier and the size that a request asks for.
struct tier_wish {
    const char *tier;         // or TIER_AUTO; NULL: the operator's choice
    struct machine_size size; // 0: any. `auto` takes only a driver that can give this size
    // For a caller with an API key: the tiers that the key names, comma separated; "": all that do
    // not share the host's kernel. NULL: the caller may have each tier that is offered.
    const char *tiers_of_key;
};

// Load the facts of a template for a new machine, and set out->driver and out->reason. wish: NULL
// asks for nothing. ERR_INVALID: there is no such tier, or it is not offered. ERR_DENIED: it is not
// for this key. Other errors say why the template cannot run in that tier on this host, and what to
// do. Blocks as driver.rank does.
// `e` may be NULL.
int tier_facts(const char *template_dir, const struct tier_wish *wish, struct machine_facts *out,
               struct err *e);

// Check that a caller may create a machine from the snapshot `id`. Only `driver`, which made the
// snapshot, can restore it. ERR_INVALID: the wish names another tier, or it is not offered.
// ERR_DENIED: it is not for this key.
int tier_check_snapshot(const char *id, const struct driver *driver, const struct tier_wish *wish,
                        struct err *e);
