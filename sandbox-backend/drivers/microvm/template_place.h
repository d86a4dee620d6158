// SPDX-License-Identifier: Apache-2.0
// Where a template is built, and how it becomes visible: as a whole or not at all.
//
// A build works in <home>/templates/.build-<name>-<8 hex digits>/. The directory is locked (flock
// on the directory itself) by the build and by every program that it runs, so the lock says whether
// anybody still writes there, however the build ended. The next build removes those that are not
// locked. Taking and sweeping happen under a lock on <home>/templates.
#pragma once
#include "sandbox-backend/base/err.h"

struct template_place {
    char *home; // owned
    char *name; // owned
    char *dir;  // owned; of the build
    int lock;   // descriptor that holds the lock; for others to inherit
};

// Removes what dead builds left, and makes a directory to build `name` in. ERR_CONFLICT when the
// same name is being built.
int template_place_open(struct template_place *p, const char *home, const char *name,
                        struct err *e);

// Makes the directory the template: one rename, which swaps it with the template that was there, if
// any. What ran from the old one keeps its open files. All files are synced before.
int template_place_commit(struct template_place *p, struct err *e);

// Removes what is left of the build (after a commit: the old template) and lets the lock go.
void template_place_close(struct template_place *p);
