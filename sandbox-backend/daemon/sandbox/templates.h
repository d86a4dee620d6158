// SPDX-License-Identifier: Apache-2.0
// The templates of this home and of the system (drivers/template_dirs.h), as the API names them.
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/drivers/tier.h"

struct sandbox;
struct store;

// The source of a new sandbox: a template, or a snapshot, which is a template and an image.
struct known_template {
    char *name;     // owned; the template's name, also for a snapshot
    char *dir;      // owned; the template's
    char *build;    // owned; the template's build (templates_build)
    char *snapshot; // owned; the snapshot's id; NULL: this is a template
    char *image; // owned; the snapshot's image directory (machine_save); NULL: this is a template
    char *token; // owned; the access token that envd in the image requires for /init
    json_t *policy;   // owned; of the snapshot's sandbox; NULL: unknown, or this is a template
    json_t *disk_env; // owned; of a snapshot of a disk alone (sandbox.disk_env); NULL: with memory
    json_t *mounts;   // owned; of the snapshot; NULL: none
    json_t *masks;    // owned; values in the image that the call log must not hold; NULL: none
    struct machine_size size; // that was requested for the snapshot's sandbox at its creation
    struct machine_facts facts;
};

// Return true for a name that a template or a snapshot may have. It has no slash and no leading
// dot, so it cannot lead out of the directory.
#define TEMPLATE_NAME_MAX 128
bool templates_is_name(const char *name);
// Return the name of the template that `wanted` stands for: a template's name, that name with
// ":default" or ":latest", an alias, or a name and tag of builds through the API (built_names.h).
// Those must be visible to `caller` (NULL: all are). Snapshots are not considered. New string, or
// NULL.
//
// Aliases are the members of <home>/templates/aliases.json, {"alias": "template"}. The names that
// E2B's SDKs ask for by default, "base" and "code-interpreter-v1", stand for "default", unless the
// file or a template has that name.
char *templates_resolve_as(const struct store *store, const char *caller, const char *wanted);
char *templates_resolve(const struct store *store, const char *wanted); // with `caller` NULL
// Return the name under which callers know a template: the name that it was built for through the
// API, or its own. Borrowed.
const char *templates_shown(const struct store *store, const char *template);
// Find the template `wanted`, or the snapshot of `owner` (NULL: of any) with that id or name.
// wish: the tier and size of the new machine (tier_facts); ignored for a snapshot, whose tier is
// fixed.
//
// ERR_NOT_FOUND: the text says how to build the template. ERR_PRECONDITION: the snapshot's template
// was rebuilt since. Any other error says why it cannot be used on this host.
int templates_find_as(const struct store *store, const char *owner, const char *wanted,
                      const struct tier_wish *wish, struct known_template *out, struct err *e);
// Set ERR_NOT_FOUND for a name that can only be a snapshot's. The text says how to list snapshots.
int templates_no_snapshot(const struct store *store, const char *wanted, struct err *e);
void templates_fini(struct known_template *t);
// Note that a caller uses the template in `dir` now: `cubby template ls` shows that time.
void templates_touch(const struct store *store, const char *dir);
// Return the directory of the template with that build (NULL: any), or of another build if there is
// none. New string.
char *templates_dir(const struct store *store, const char *name, const char *build);
// Return the template's present build. It changes with each rebuild. New string.
char *templates_build(const struct store *store, const char *name);
// Return whether lists leave the template out: it is an intermediate result of a build.
bool templates_is_hidden(const struct store *store, const char *name);
// Return what a template gives its sandboxes: {"variables", "directory", "user"}, each of which may
// be missing. New reference; NULL: it gives them nothing.
// build: that is meant (templates_dir).
json_t *templates_environment(const struct store *store, const char *name, const char *build);
// Check that the template is still the build that `sb` was created from. An image holds only the
// differences from that build, so it is useless with another. ERR_CONFLICT says what has changed.
int templates_check(const struct sandbox *sb, struct err *e);
