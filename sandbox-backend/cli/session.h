// SPDX-License-Identifier: Apache-2.0
// A client for a verb that asks one thing after the other: a loop of its own, and calls that wait.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <uv.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/opts.h"
#include "sandbox-backend/client/client.h"

// Which server: options that every verb with a session has.
struct session_opts {
    const char *api_url;
    const char *api_key;
    const char *sandbox_url;
};
#define SESSION_OPTS(o)                                                                      \
    {"api-url",  "E2B_API_URL",                                                              \
     OPT_STRING, &(o)->api_url,                                                              \
     "URL",      "a remote server instead of the local daemon",                              \
     0,          0,                                                                          \
     NULL},                                                                                  \
        {"api-key", "E2B_API_KEY", OPT_STRING, &(o)->api_key, "KEY", "its key", 0, 0, NULL}, \
    {                                                                                        \
        "sandbox-url", "E2B_SANDBOX_URL", OPT_STRING, &(o)->sandbox_url, "URL",              \
            "its sandboxes' address, when they share one", 0, 0, NULL                        \
    }

struct session {
    uv_loop_t loop;
    struct client *client;
    char *home; // owned
    bool local;
    bool closed;
};

enum session_start {
    SESSION_MAY_START, // the daemon is started when it does not run
    SESSION_NEVER_START,
    SESSION_IF_USED, // only when sandboxes may be there: an earlier daemon left some
};
int session_open(struct session *s, const struct session_opts *opts, enum session_start start,
                 struct err *e);
void session_close(struct session *s);

// Whether SESSION_IF_USED found neither a daemon nor anything that it could know of.
bool session_is_idle(const struct session *s);

// Each waits for its end. New references, or NULL with `e`.
json_t *session_create(struct session *s, const struct sandbox_opts *opts, struct err *e);
json_t *session_list(struct session *s, struct err *e);
int session_kill(struct session *s, const char *id, struct err *e);
int session_pause(struct session *s, const char *id, struct err *e);
int session_resume(struct session *s, const char *id, int64_t seconds, struct err *e);

// The id that `given` means: itself, or the only one that begins with it. New string, or NULL.
char *session_resolve(struct session *s, const char *given, struct err *e);
