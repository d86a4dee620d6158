// SPDX-License-Identifier: Apache-2.0
// A verb's connection to a backend: a client with an event loop of its own, and requests that block
// until they are answered.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <uv.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/opts.h"
#include "sandbox-backend/client/client.h"

// Which backend: the options that every verb with a connection takes, as cubby-mcp does.
struct backend_opts {
    const char *backend; // a URL or "local"; NULL: client.api_url, or the local daemon
    struct client_opts client;
};
#define BACKEND_OPTS_COUNT 8
// Write the rows of the options into `out`; their values go to `o`.
void backend_opts_table(struct opt out[BACKEND_OPTS_COUNT], struct backend_opts *o);

// A sandbox's time to live in seconds. Only the server knows the maximum: cubbyd's is a day, unless
// --max-timeout says otherwise.
#define TTL_DEFAULT_S 3600
#define TTL_LIMIT     "at most 86400, unless cubbyd --max-timeout says otherwise"

struct connection {
    uv_loop_t loop;
    struct client *client;
    char *home; // owned
    bool local;
    bool closed;
};

enum connect_mode {
    CONNECT_STARTS, // start the local daemon when it does not run
    CONNECT_NEVER_STARTS,
    CONNECT_STARTS_IF_USED, // start it only when an earlier daemon left sandboxes or snapshots
};
int connection_open(struct connection *c, const struct backend_opts *opts, enum connect_mode mode,
                    struct err *e);
void connection_close(struct connection *c);

// Return whether there is neither a local daemon nor anything that it could list.
bool connection_is_idle(const struct connection *c);

// Requests. Each blocks until it is answered. New references, or NULL with `e`.
json_t *connection_create(struct connection *c, const struct sandbox_opts *opts, struct err *e);
json_t *connection_list(struct connection *c, struct err *e);
json_t *connection_get(struct connection *c, const char *id, struct err *e);
json_t *connection_stats(struct connection *c, const char *id, struct err *e); // NULL id: all
int connection_kill(struct connection *c, const char *id, struct err *e);
int connection_pause(struct connection *c, const char *id, enum pause_depth depth, struct err *e);
int connection_resume(struct connection *c, const char *id, int64_t seconds, struct err *e);
json_t *connection_snapshot(struct connection *c, const char *id, const char *name, struct err *e);
json_t *connection_snapshots(struct connection *c, const char *id, struct err *e); // NULL id: all
int connection_snapshot_delete(struct connection *c, const char *snapshot, struct err *e);
json_t *connection_fork(struct connection *c, const char *id, const struct fork_opts *opts,
                        struct err *e);
json_t *connection_network(struct connection *c, const char *id, struct err *e); // client_network
int connection_network_set(struct connection *c, const char *id, const json_t *policy,
                           struct err *e);
json_t *connection_logs(struct connection *c, const char *id, int64_t from_ms, const char *level,
                        struct err *e); // client_logs
json_t *connection_events(struct connection *c, const char *id, int64_t offset, struct err *e);
// client_record: appends to `out`.
int connection_record(struct connection *c, const char *id, int64_t after, struct buf *out,
                      struct err *e);
json_t *connection_expose(struct connection *c, const char *id, const struct expose_opts *opts,
                          struct err *e);
json_t *connection_ports(struct connection *c, const char *id, struct err *e);
int connection_unexpose(struct connection *c, const char *id, int port, struct err *e); // 0: all
json_t *connection_mount(struct connection *c, const char *id, const struct mount_opts *opts,
                         struct err *e);
json_t *connection_mounts(struct connection *c, const char *id, struct err *e);
int connection_unmount(struct connection *c, const char *id, const char *target, struct err *e);
json_t *connection_volume(struct connection *c, const char *id, struct err *e);
json_t *connection_volume_make(struct connection *c, const char *name, struct err *e);
int connection_volume_remove(struct connection *c, const char *id, struct err *e);
json_t *connection_volume_files(struct connection *c, const struct volume_ref *v, const char *path,
                                struct err *e);
int connection_volume_make_dir(struct connection *c, const struct volume_ref *v, const char *path,
                               struct err *e);
int connection_volume_unlink(struct connection *c, const struct volume_ref *v, const char *path,
                             struct err *e);
// Each takes the descriptor.
int connection_volume_upload(struct connection *c, const struct volume_ref *v, int fd,
                             const char *path, struct err *e);
int connection_volume_download(struct connection *c, const struct volume_ref *v, const char *path,
                               int fd, struct err *e);
int connection_rollback(struct connection *c, const char *id, const char *snapshot, struct err *e);

// For the daemon's operator (client.h).
int connection_key_removed(struct connection *c, const char *name, struct err *e);
json_t *connection_volumes(struct connection *c, struct err *e);
json_t *connection_templates(struct connection *c, struct err *e);
json_t *connection_health(struct connection *c, struct err *e);
int connection_drain(struct connection *c, bool wakes, struct err *e);
json_t *connection_move(struct connection *c, const char *id, const char *node, const char *cut,
                        struct err *e);
int connection_move_cancel(struct connection *c, const char *id, struct err *e);
int connection_moved(struct connection *c, const char *id, struct err *e);
json_t *connection_arrive(struct connection *c, const struct client_arrival *a, struct err *e);

// Return the id that `given` means: itself, or the only id that begins with it. New string, or
// NULL.
char *connection_resolve(struct connection *c, const char *given, struct err *e);

// Connect, call `act` for the sandbox that `given` means, and close. Print errors. Return the exit
// status, which is that of `act`.
int connection_on_one(const struct backend_opts *server, const char *given,
                      int (*act)(struct connection *c, const char *id, const void *ctx),
                      const void *ctx);
// The same for each of the ids, or beginnings of ids: print the id after a success of `act`, as
// text or as {"sandboxID": ID}, or the error. Return the exit status.
typedef int (*connection_act)(struct connection *c, const char *id, int64_t arg, struct err *e);
int connection_on_each(const struct backend_opts *server, char **ids, int count, connection_act act,
                       int64_t arg, bool as_json);
void connection_print_id(const char *id, bool as_json);
