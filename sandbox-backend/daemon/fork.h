// SPDX-License-Identifier: Apache-2.0
// Forking a sandbox: others that go on from where it is, with its memory, processes and files.
//
//  1. Its state as an image in the hidden snapshots/.fork-<random> (sandbox_image.h). It goes on.
//  2. The children are created from that image, a few at once. Each is a creation of its own, with
//     its own admission, id, tokens and entropy; what fails is only that child.
//  3. When the last is decided, all are told. The image is removed: children keep what they need.
//
// A child has the owner, metadata, policy and switches of its parent, and its environment, which
// envd in it has.
#pragma once
#include <jansson.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"

#define FORK_COUNT_MAX 100

struct sandbox;
struct forking;

struct fork_wish {
    int64_t count, timeout_s;
};
// Exactly once, from the loop, never inside the call. `results` is a new array (taken) of
// {"sandbox": ...} and {"error": {"code", "message"}}; NULL with `e`: there are no children at all.
typedef void (*fork_cb)(json_t *results, const struct err *e, void *ctx);
// NULL when it is refused at once; the callback is not called then.
struct forking *fork_start(struct sandbox *sb, const struct fork_wish *wish, fork_cb cb, void *ctx,
                           struct err *e);
// Nobody waits for it any more: children that there are already are ended, as nobody knows of them.
// The callback is not called. Valid until it was.
void fork_abandon(struct forking *f);
