// SPDX-License-Identifier: Apache-2.0
// The templates of this home, as the API names them.
#pragma once
#include <jansson.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/drivers/driver.h"

struct sandbox;
struct store;

// A template, or a snapshot of a sandbox, which is a template with an image.
struct known_template {
    char *name;     // owned; of a snapshot that of the template it is an image of
    char *dir;      // owned; the template's
    char *build;    // owned; which one of that name (templates_build)
    char *snapshot; // owned; its id; NULL: the template itself
    char *image;    // owned; the snapshot's directory of machine_save; NULL likewise
    char *token;    // owned; that envd in the image has, and asks for before it takes another
    json_t
        *policy; // owned; of the network of the snapshot's sandbox; NULL: not known, or no snapshot
    struct machine_size size; // of the snapshot, as its sandbox was asked for with
    struct machine_facts facts;
};

// The template that a name stands for: its own name, "<name>:default" or "<name>:latest", or an
// alias. Snapshots are not among them. Aliases are the members of <home>/templates/aliases.json,
// {"alias": "template"}, and
// besides, unless they are there or are templates, "base" and "code-interpreter-v1": the names that
// E2B's SDKs ask for by themselves, for "default". New string, NULL when there is none.
char *templates_resolve(const struct store *store, const char *wanted);
// ERR_NOT_FOUND says how to make one; another error why it cannot be used on this host.
// `wanted` may also be a snapshot, by its id or name; of those of `owner` with templates_find_as
// (NULL: of all). ERR_PRECONDITION when its template was built anew since.
int templates_find(const struct store *store, const char *wanted, struct known_template *out,
                   struct err *e);
int templates_find_as(const struct store *store, const char *owner, const char *wanted,
                      struct known_template *out, struct err *e);
// ERR_NOT_FOUND of what can only be a snapshot: how to see those there are, not how to build one.
int templates_no_snapshot(const char *wanted, struct err *e);
void templates_fini(struct known_template *t);
// Which build of it a template is; two of one name differ. New string.
char *templates_build(const struct store *store, const char *name);
// Whether the template is still the one that `sb` was made from: an image of it is what differs
// from that, and means nothing without. ERR_CONFLICT says what happened to it.
int templates_check(const struct sandbox *sb, struct err *e);

json_t *templates_list(const struct store *store); // array of E2B's Template; new reference
json_t *templates_detail(const struct store *store,
                         const struct known_template *t); // E2B's TemplateWithBuilds; the same
