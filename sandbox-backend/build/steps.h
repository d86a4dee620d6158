// SPDX-License-Identifier: Apache-2.0
// What an action does in the sandbox of its stage.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/build/session.h"
#include "sandbox-backend/build/stage.h"

struct steps {
    struct session *session;       // borrowed
    struct build_context *context; // borrowed; NULL: the plan names archives
    int64_t timeout_ms;            // of one RUN
    int64_t disk_bytes;            // of the template; an archive cannot unpack to more
    void (*on_output)(bool is_stderr, const char *data, size_t len, void *ctx);
    void *ctx;
};

// Do the action in the sandbox `id`. For COPY --from, `from` is a sandbox of the other stage. The
// processes that a RUN leaves behind are ended.
int steps_do(const struct steps *s, const char *id, const struct action *a, const char *from,
             struct err *e);
// Check that the sandbox has the user. The error says what to do.
int steps_check_user(const struct steps *s, const char *id, const char *user, struct err *e);
// Write everything that the guest holds in memory to its disk.
int steps_sync(const struct steps *s, const char *id, struct err *e);
