// SPDX-License-Identifier: Apache-2.0
// One sandbox of the pool, from nothing to "ready to be handed out".
//
//  1. Its directory.
//  2. The driver restores its machine in the background, with no way to the outside.
//  3. POST /init: entropy, clock, name. No token: there is nobody yet who would have it.
//  4. Warm-up: what a first command, and a first run of Python where the template has it, need to
//     have been run once, is. It leaves no file, history, variable or process.
//  5. The machine has finished what it began by itself, and stands still.
//  6. sandbox.json says that it is pooled: POOLED.
//
// It may be wanted by somebody before it is ready (pooled_claim): then it is handed out after the
// step that is under way, from step 3 on.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/daemon/create.h"

struct machine;
struct sandbox;
struct store;

// Once, from the loop: it is ready, or was claimed and is on its way to the one who did. Else `sb`
// is NULL and `e` set, and nothing is left of it.
typedef void (*pooled_cb)(struct sandbox *sb, const struct err *e, void *ctx);

// The new sandbox, in state CREATING.
struct sandbox *pooled_make(struct store *store, const struct known_template *template,
                            pooled_cb cb, void *ctx);
// One that an earlier daemon left ready, with its machine standing still: POOLED.
void pooled_adopt(struct sandbox *sb);

// Whether it is the pool's, and nobody's yet.
bool pooled_is(const struct sandbox *sb);

// One that is being made is to be handed out to somebody, for whom create_identify was called.
void pooled_claim(struct sandbox *sb, create_cb cb, void *ctx);
// It is POOLED and is handed out: it is none of the pool's any more.
void pooled_leave(struct sandbox *sb);
// It is ended as soon as it can be, without a word about its end.
void pooled_end(struct sandbox *sb, const char *why);
// The daemon goes, and leaves one that is POOLED to the next.
void pooled_release(struct sandbox *sb);
// Its machine ended by itself. Called by ending.c.
void pooled_on_exit(struct sandbox *sb, const char *reason);
