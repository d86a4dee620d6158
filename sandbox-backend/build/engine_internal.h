// SPDX-License-Identifier: Apache-2.0
// What the files of the engine share.
#pragma once
#include "sandbox-backend/build/engine.h"
#include "sandbox-backend/build/session.h"
#include "sandbox-backend/build/stage.h"
#include "sandbox-backend/build/steps.h"
#include "sandbox-backend/drivers/host/disk_space.h"

struct engine {
    const struct engine_opts *opts; // borrowed
    json_t *plan;                   // owned
    struct build_context *context;  // owned; NULL: the plan names archives
    struct stage **stages;          // owned, each also; first those of the plan, then those of
                                    // images that only COPY --from names
    size_t count, of_plan;
    struct stage_world world;
    struct session session;
    bool has_session;
    struct steps steps;
    json_t *policy;  // owned
    json_t *globals; // owned
    json_t *used;    // owned; stage_world.used
    char *work;      // owned; <home>/build-work/<name>
    char *lock_path; // owned
    int lock;        // descriptor that holds the lock on `work`
    int64_t cpus, memory_mb, disk_mb;
    struct disk_space space; // of the home
};

// Where the output of template_build goes: a stream whose lines become the output of the step.
FILE *engine__stream(struct report *report);
// Take a lock file. With `wait`, wait until it is free. ERR_CONFLICT: another process has it.
int engine__lock(const char *path, bool wait, const char *name, struct err *e);
// Free the lock, and remove its file.
void engine__unlock(const char *path, int lock);

// base.c: begin the stage with its base. An image that has no template yet gets one.
int engine__begin(struct engine *b, struct stage *s, struct err *e);
// Give the template the size of the target's base, where the caller and the plan name none.
void engine__sizes(struct engine *b, const struct stage *target);
// Make a stage of an image or a template that COPY --from names.
struct stage *engine__extra_stage(struct engine *b, const char *name, struct err *e);
// Find a stage of the plan by its name or number, or NULL.
struct stage *engine__find_stage(const struct engine *b, const char *name);
struct stage *engine__add_stage(struct engine *b, const json_t *json);

// finish.c: return the key of the template.
void engine__final_key(const struct engine *b, const struct stage *s, char key[KEY_CHARS + 1]);
// Make the template of the last layer of the stage.
int engine__finish(struct engine *b, struct stage *s, struct err *e);
