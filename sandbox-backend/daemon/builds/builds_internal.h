// SPDX-License-Identifier: Apache-2.0
// What the files of this folder share.
#pragma once
#include "sandbox-backend/daemon/builds/builds.h"

// ---- build.c: one build
struct build *build__new(struct builds *all, const char *id);
void build__free(struct build *b); // it must be in no list
int build__write(const struct build *b, struct err *e);
// Read <dir>/build.json. NULL with an error that names the file.
struct build *build__read(struct builds *all, const char *id, struct err *e);
// Change the state and write the record. The step of a failure may be NULL.
void build__set_state(struct build *b, enum build_state to);
void build__fail(struct build *b, const char *step, const char *reason);
bool build__is_unfinished(const struct build *b);

// ---- builds.c
void builds__on_ended(struct build *b); // its state is READY or FAILED: start the next one
// ---- collect.c
// Remove the template of an ended build whose tags were never written, or are gone: its daemon was
// killed in between.
void collect__orphan(struct build *b);
// ---- engine.c: the process of a running build
int engine__start(struct build *b, struct err *e);
void engine__end(struct build *b); // politely, then by SIGKILL
