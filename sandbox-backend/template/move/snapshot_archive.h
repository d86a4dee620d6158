// SPDX-License-Identifier: Apache-2.0
// Moving snapshots between homes and machines.
//
// An archive has a snapshot's image: what differs from one build of one template. So an import
// needs that build, and a host that can restore it: the same QEMU or runsc, and under KVM a
// processor with the same features. `cubby template import` makes another build. Therefore an
// archive may carry the build itself, with its saved machine.
//
// The manifest is {"format", "snapshot": {...}, "tier", "sum", "with_template", "files"} (carry.h).
// "snapshot" has the members of snapshot.json that an import keeps; "sum" names the build of the
// template by the SHA-256 of its saved devices.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/keys/sha256.h"

// Write a snapshot, by its id or name, to a new file that only this user can read: it has the
// memory of the sandbox. digest: gets that of the contents. Blocking.
int snapshot_archive_export(const char *home, const char *wanted, bool with_template,
                            const char *path, struct sha256 *digest, struct err *e);

bool snapshot_archive_name_ok(const char *name);

struct snapshot_import {
    const char *home, *path;
    const char *name;              // for the snapshot, a valid one; NULL: that of the archive
    const struct sha256 *expected; // digest that the archive must have, or NULL
};
// Make a snapshot of an archive, which may come from anybody. All of it is checked before there is
// a snapshot. *id: its new id, a new string. *template: new string, the name of the template that
// the archive brought; NULL: it was here already. Blocking.
int snapshot_archive_import(const struct snapshot_import *spec, char **id, char **template,
                            struct err *e);
