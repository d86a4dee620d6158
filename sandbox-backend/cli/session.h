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
#include "sandbox-backend/client/ports.h"

// Which server: options that every verb with a session has, as cubby-mcp has them.
struct session_opts {
    const char *backend; // a URL or "local"; NULL: client.api_url, or the local daemon
    struct client_opts client;
};
#define SESSION_OPT(o, name, env, member, arg, help)               \
    {                                                              \
        name, env, OPT_STRING, &(o)->member, arg, help, 0, 0, NULL \
    }
#define SESSION_OPTS(o)                                                                           \
    SESSION_OPT(o, "backend", "CUBBY_BACKEND", backend, "URL",                                    \
                "a remote server: cubbyd, E2B or CubeSandbox; or local, the default"),            \
        SESSION_OPT(o, "dialect", "CUBBY_DIALECT", client.dialect, "NAME",                        \
                    "which of them: cubbyd, e2b or cube (default: found by asking)"),             \
        SESSION_OPT(o, "api-url", "E2B_API_URL", client.api_url, "URL", "the same as --backend"), \
        SESSION_OPT(o, "api-key", "E2B_API_KEY", client.api_key, "KEY", "its key"),               \
        SESSION_OPT(o, "sandbox-url", "E2B_SANDBOX_URL", client.sandbox_url, "URL",               \
                    "its sandboxes' address, when they share one"),                               \
        SESSION_OPT(o, "backend-proxy", "CUBBY_BACKEND_PROXY", client.proxy_url, "URL",           \
                    "where its sandboxes' names lead, whatever DNS says"),                        \
        SESSION_OPT(o, "backend-ca", "SSL_CERT_FILE", client.ca_file, "FILE",                     \
                    "trust these authorities for it too, PEM"),                                   \
        SESSION_OPT(o, "cube-master", "CUBBY_CUBE_MASTER", client.cube_master, "URL",             \
                    "CubeMaster, to reach a CubeSandbox's sandboxes by address")

// A sandbox's time to live. How much of it is allowed is the server's to say: cubbyd's limit is a
// day, unless --max-timeout says otherwise, and it takes no larger one than this.
#define SESSION_TTL_DEFAULT_S 3600
#define SESSION_TTL_MAX_S     (365LL * 24 * 3600)
#define SESSION_TTL_LIMIT     "at most 86400, unless cubbyd --max-timeout says otherwise"

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
    SESSION_IF_USED, // only when sandboxes or snapshots may be there: an earlier daemon left some
};
int session_open(struct session *s, const struct session_opts *opts, enum session_start start,
                 struct err *e);
void session_close(struct session *s);

// Whether SESSION_IF_USED found neither a daemon nor anything that it could know of.
bool session_is_idle(const struct session *s);

// Each waits for its end. New references, or NULL with `e`.
json_t *session_create(struct session *s, const struct sandbox_opts *opts, struct err *e);
json_t *session_list(struct session *s, struct err *e);
json_t *session_stats(struct session *s, const char *id, struct err *e); // NULL id: all
int session_kill(struct session *s, const char *id, struct err *e);
int session_pause(struct session *s, const char *id, enum pause_depth depth, struct err *e);
int session_resume(struct session *s, const char *id, int64_t seconds, struct err *e);
json_t *session_snapshot(struct session *s, const char *id, const char *name, struct err *e);
json_t *session_snapshots(struct session *s, const char *id, struct err *e); // NULL id: all
int session_snapshot_delete(struct session *s, const char *snapshot, struct err *e);
json_t *session_fork(struct session *s, const char *id, const struct fork_opts *opts,
                     struct err *e);
json_t *session_network(struct session *s, const char *id, struct err *e); // client/network.h
int session_network_set(struct session *s, const char *id, const json_t *policy, struct err *e);
json_t *session_expose(struct session *s, const char *id, const struct expose_opts *opts,
                       struct err *e);
json_t *session_ports(struct session *s, const char *id, struct err *e);
int session_unexpose(struct session *s, const char *id, int port, struct err *e); // 0: all
int session_rollback(struct session *s, const char *id, const char *snapshot, struct err *e);

// The id that `given` means: itself, or the only one that begins with it. New string, or NULL.
char *session_resolve(struct session *s, const char *given, struct err *e);
