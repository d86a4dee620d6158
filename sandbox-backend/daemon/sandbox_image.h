// SPDX-License-Identifier: Apache-2.0
// The whole state of a sandbox as an image in a directory, whatever the sandbox is doing.
//
// One that has a machine, running or standing still, is saved by it and goes on as it was; one that
// is being woken, or is asleep with its machine or on its way there, when it is awake. While one
// that runs is saved its processes are frozen. One that is hibernated is its image already: its
// files are linked, as images are only ever read.
#pragma once
#include "sandbox-backend/drivers/driver.h"

struct sandbox;

// Exactly once, from the loop, never inside the call; `saved` is NULL when `e` is not: ERR_NO_SPACE
// (the host has no disk or memory left for it), ERR_GONE (it was ended meanwhile) ... What is in
// the directory then is the caller's to remove.
typedef void (*sandbox_image_cb)(const struct machine_saved *saved, const struct err *e, void *ctx);

// `sb` is one that may be known (sandbox_is_known). `dir` exists, is empty, and is below the home.
// `use`: SAVE_TO_KEEP or SAVE_IN_PASSING.
void sandbox_image_save(struct sandbox *sb, const char *dir, enum machine_save_use use,
                        sandbox_image_cb cb, void *ctx);
// One that runs and was left by an earlier daemon, perhaps in the middle of that: thaws its
// processes, if they are frozen.
void sandbox_image_mend(struct sandbox *sb);
// It is being ended: those that wait are told, with ERR_GONE, and nothing more is asked of it.
void sandbox_image_drop(struct sandbox *sb);
