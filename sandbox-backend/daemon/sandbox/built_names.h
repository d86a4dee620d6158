// SPDX-License-Identifier: Apache-2.0
// The names of templates that were built through the API, and their tags.
//
// A build through the API never replaces a template: it makes one of its own, in
// <home>/templates/<name>@<8 hex digits>/. A tag is a pointer to one of these builds. So a rebuild
// moves tags, and sandboxes and snapshots of the build before keep their template. Several tags may
// point to one build.
//
//   <home>/builds/names.json
//     {"format": 1, "names": {"my-app": {
//        "owner": "ci" or null, "public": false,
//        "builds": {"<build id>": {"template": "my-app@3f2a91c0", "created_ns": 1,
//                                  "finished_ns": 2, "bytes": 3}},
//        "tags": {"default": {"build": "<build id>", "assigned_ns": 2}}}}}
//
// Only the daemon writes the file. A build whose directory is missing, because the operator removed
// it with `cubby template rm`, counts as absent.
//
// The owner is the name of the API key that made the first build; NULL is the operator, on the unix
// socket. The owner and the operator may change a name. They alone see it, unless it is public.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"

#define NAMES_TAG_DEFAULT "default"
#define NAMES_BYTES       128 // longest name and longest tag
#define NAMES_TAGS_MAX    256 // of one name

struct built_names {
    char *path;      // owned
    char *templates; // owned; <home>/templates
    json_t *all;     // owned; the member "names"
};

int built_names_open(struct built_names *n, const char *home, struct err *e);
void built_names_fini(struct built_names *n);

// Split "name:tag". New strings; *tag is NULL without a tag. The parts are not checked.
void built_names_split(const char *wanted, char **name, char **tag);
// Tell whether the text is [a-z0-9][a-z0-9._-]* and at most NAMES_BYTES long.
bool built_names_is_valid(const char *text);

bool built_names_has(const struct built_names *n, const char *name);
// Return the owner's name, borrowed; NULL: the operator, or the name is unknown.
const char *built_names_owner(const struct built_names *n, const char *name);
bool built_names_is_public(const struct built_names *n, const char *name);
// Tell whether a caller (NULL: the operator) may use, or change, this name. False if it is unknown.
bool built_names_sees(const struct built_names *n, const char *caller, const char *name);
bool built_names_owns(const struct built_names *n, const char *caller, const char *name);

// Return the template of a tag that the caller sees, borrowed, or NULL. *assigned_ns (may be NULL):
// since when.
const char *built_names_template(const struct built_names *n, const char *caller, const char *name,
                                 const char *tag, int64_t *assigned_ns);
// Return the name that a template directory was built for, borrowed; NULL: for none.
const char *built_names_of_template(const struct built_names *n, const char *template);
// Return the builds and the tags of a name as the file has them. Borrowed; NULL: unknown name.
const json_t *built_names_builds(const struct built_names *n, const char *name);
const json_t *built_names_tags(const struct built_names *n, const char *name);
// Return the build of a tag, borrowed; NULL: no such tag.
const char *built_names_build_of(const struct built_names *n, const char *name, const char *tag);
// Add up the bytes of all builds of an owner.
int64_t built_names_bytes(const struct built_names *n, const char *owner);

// ---- changes. Each writes the file; after a failure nothing has changed.

struct built_names_build {
    const char *id, *template; // borrowed
    int64_t created_ns, finished_ns, bytes;
};
// Add a finished build and let `tags`, an array of strings, point to it. An unknown name is added,
// and belongs to `owner`.
int built_names_add_build(struct built_names *n, const char *name, const char *owner,
                          const struct built_names_build *b, const json_t *tags, struct err *e);
// Let tags point to a build of the name. ERR_LIMIT: NAMES_TAGS_MAX.
int built_names_tag(struct built_names *n, const char *name, const char *build, const json_t *tags,
                    struct err *e);
// Remove tags. ERR_NOT_FOUND names a tag that is missing, and removes none.
int built_names_untag(struct built_names *n, const char *name, const json_t *tags, struct err *e);
int built_names_publish(struct built_names *n, const char *name, bool public, struct err *e);
// Forget a build, with its tags. The last build takes the name with it.
int built_names_forget(struct built_names *n, const char *name, const char *build, struct err *e);
