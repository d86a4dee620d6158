// SPDX-License-Identifier: Apache-2.0
// A stage of a build: its steps with all variables expanded, and the key of each layer.
//
// A step that changes the disk is an action, and its result is a layer. The key of a layer is the
// hash of the key before it and of all that the action depends on: its command or its files, the
// environment, the user and the directory. So a step whose key is known need not run again. The
// other steps (ENV, USER ...) only change the configuration, which the later actions depend on.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/build/build_context.h"

#define KEY_CHARS 64

// What the instructions of a stage set for those after them.
struct stage_config {
    json_t *env;             // owned; object of strings
    json_t *args;            // owned; object of strings, of ARG
    json_t *labels;          // owned; object of strings
    json_t *shell;           // owned; array of strings
    json_t *entrypoint;      // owned; the step, or NULL
    json_t *cmd;             // owned; the step, or NULL
    json_t *health;          // owned; the step, or NULL
    json_t *make;            // owned; [directory, user] pairs that the next action makes
    char *user, *directory;  // owned; NULL: the base names none
    const json_t *user_step; // borrowed; the USER that set `user`; NULL: the base did
    const json_t *make_step; // borrowed; the step that added the last pair to `make`
};

// What an action does, as JSON; the key is a hash of it:
//
//   {"type": "RUN", "argv": [...], "env": {...}, "user", "directory", "make": [...]}
//   {"type": "COPY", "sources": [...], "dest", "user", "mode", "make": [...],
//    "hash": of the files, or "from": the key of another stage; "pattern": true, if the guest
//    must expand globs in the sources}
//   {"type": "WORKDIR", "make": [...]}
struct action {
    json_t *what;       // owned
    json_t *step;       // owned; with its variables expanded
    int index;          // among all stages and actions of the build, from 1
    bool force;         // never take it from the cache
    struct stage *from; // borrowed; COPY --from; NULL: none
    char key[KEY_CHARS + 1];
};

struct stage {
    const json_t *json;       // borrowed; of the plan
    char *name;               // owned; of a Dockerfile, or NULL
    char *template;           // owned; the base template, also of a stage that begins with another
    char base[KEY_CHARS + 1]; // the key before the first action
    struct stage *parent;     // borrowed; FROM another stage; NULL: none
    struct stage_config config;
    struct action *actions; // owned
    size_t count;
    int index;     // of FROM
    bool resolved; // the keys of all its actions are known
    bool built;    // its last layer exists
};

// What all stages of a build share.
struct stage_world {
    bool expand;           // the plan is a Dockerfile, whose words have variables
    char escape;           // of the Dockerfile
    const json_t *globals; // borrowed; object: the ARGs before the first FROM, with their values
    const json_t *given;   // borrowed; object: --build-arg
    json_t *used;          // borrowed; object: gets the names of `given` that an ARG takes
    struct build_context *context; // borrowed; NULL: the plan names archives
    bool force;                    // no step is taken from the cache
    int steps;                     // stages and actions so far
    // Find the stage that COPY --from names, or make one of an image. Resolved. NULL with `e`.
    struct stage *(*find)(const char *name, void *ctx, struct err *e);
    void *ctx;
};

// Give a stage the state of its base: an environment object (or NULL), user and directory (or
// NULL), and the key.
void stage_begin(struct stage *s, const char *template, const char *key, const json_t *env,
                 const char *user, const char *directory);
// The same, with an earlier stage as the base.
void stage_begin_with(struct stage *s, struct stage *parent);
// Resolve the steps. ERR_INVALID or ERR_NOT_FOUND; the message has the line.
int stage_resolve(struct stage *s, struct stage_world *w, struct err *e);
void stage_fini(struct stage *s);

// Return the key after the last action.
const char *stage_key(const struct stage *s);
// Return the command of CMD and ENTRYPOINT, or of HEALTHCHECK, for a shell. New string, or NULL.
char *stage_start_command(const struct stage *s);
char *stage_ready_command(const struct stage *s);

// Expand the variables of a text with an object of strings. New string, or NULL with `e`.
char *stage_expand(const struct stage_world *w, const char *text, const json_t *variables,
                   struct err *e);
// Hash a key and a JSON value to another key.
void stage_hash(char out[KEY_CHARS + 1], const char *before, const json_t *what);
// Read the ARGs before the first FROM into a new object.
json_t *stage_globals(const struct stage_world *w, const json_t *steps, struct err *e);
