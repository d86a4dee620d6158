// SPDX-License-Identifier: Apache-2.0
// The client and its operations in progress. For client/ only.
#pragma once
#include <stdbool.h>
#include <uv.h>

#include "sandbox-backend/client/access.h"
#include "sandbox-backend/client/client.h"
#include "sandbox-backend/client/daemon_start.h"
#include "sandbox-backend/client/dialect.h"
#include "sandbox-backend/net/http_client.h"

struct call;
struct expiry;
struct identify;

// The first member of every operation. The operation is in the client's list from op_begin to
// op_end; its file frees it after op_end.
struct client_op {
    struct client *client;
    struct client_op *prev, *next;
    void (*cancel)(
        struct client_op *op); // may be called twice; must not complete before it returns
};

// The waits of a client's streams, in ms. Constant, except in tests.
struct stream_times {
    uint64_t silence;     // a stream that is silent for so long is broken
    uint64_t held_first;  // a stream without a byte after this is looked into (held.h)
    uint64_t held_alive;  // between two looks at what it is about
    uint64_t held_ending; // for the stream of a command that has ended to end
};

struct client {
    uv_loop_t *loop;               // borrowed
    const struct dialect *dialect; // static; a guess until `identify` is done
    bool is_version_known;         // whether it is the dialect's later version (dialect.h)
    char *api_url;                 // owned, without a trailing slash; NULL when local
    char *sandbox_url;             // owned, the same; NULL: from the sandbox's domain
    char *domain, *cube_master, *user, *ca_file, *api_key; // owned or NULL
    json_t *network;          // owned; policy of sandboxes that are created without one; or NULL
    char *connect_to;         // owned; "HOST:PORT" for host names of sandboxes; NULL: DNS
    const char *proxy_scheme; // literal, for such names: "https" or "http"
    char *socket;             // owned; NULL unless local
    struct http_client *http; // owned; NULL before the first call
    struct daemon_start *starter; // owned; NULL unless local
    struct identify *identify;    // owned; NULL when the dialect was known from the start
    struct expiry *expiries;      // owned; for a server that ends no sandboxes by itself
    struct access_cache accesses;
    struct stream_times times;
    bool holds_streams; // a proxy on the way to the sandboxes holds streams back (held.h)
    struct client_op *ops;
    struct call *queued, **queue_end; // calls that begin, or end, in the loop's next turn
    uv_timer_t kick;
    bool closing;
    void (*on_closed)(void *ctx);
    void *closed_ctx; // borrowed
};

void op_begin(struct client_op *op, struct client *c, void (*cancel)(struct client_op *op));
void op_end(struct client_op *op);
void client__kick(struct client *c); // look at the queue in the loop's next turn
struct http_client *client__http(struct client *c);

// The control plane's path of a sandbox, or below it: "/sandboxes/<id><suffix>". New string.
char *client__about(const char *id, const char *suffix);
// The control plane's path of a snapshot: new string, "" with `e` when there cannot be such a
// snapshot. E2B's ids hold '/' and ':'.
char *snapshot_target(const char *snapshot, struct err *e);

// Return the policy, in either form of net_policy.h, as {"allowOut": [...], "denyOut":
// ["0.0.0.0/0"]}. ERR_UNIMPLEMENTED, which names the server: these lists cannot say it. New
// reference.
json_t *network_lists(const json_t *policy, const char *server, struct err *e);

// Append the encoded path and query of a volume's file to `out`. what: "file", "dir" or "path".
struct buf;
void volume_target(struct buf *out, const struct volume_ref *v, const char *what, const char *path);

// Return whether the URL is the control plane of one of E2B's own domains.
bool client__is_e2b(const char *api_url);

// ---- whether a sandbox still lives, after a stream of it broke (fate.c)

struct fate; // freed once its callback was called

// `e` is never NULL: ERR_GONE with why the sandbox ended; ERR_UNAVAILABLE when it lives or that is
// unknown (the message has `lost`, a literal, and `broke`); ERR_CANCELED. Called from the loop.
typedef void (*fate_cb)(const struct err *e, void *ctx);

struct fate *fate_ask(struct client *c, const char *id, const char *lost, const struct err *broke,
                      fate_cb cb, void *ctx);
void fate_cancel(struct fate *f);

// ---- the end times of sandboxes on a server that ends none by itself (expiry.c)
//
// That is CubeSandbox. The times are kept in memory: when this process ends, its sandboxes stay
// until somebody ends them.

#define EXPIRY_MAX  10000 // end times that a client keeps
#define EXPIRY_FULL "this client keeps the end times of at most %d sandboxes; kill some first"

// End the sandbox in `seconds` from now; replaces an earlier end time. False: too many are kept.
bool expiry_set(struct client *c, const char *id, int64_t seconds);
// The sandbox is paused: it has no end time until expiry_forget and expiry_set. Nothing happens
// when its end time is not kept.
void expiry_hold(struct client *c, const char *id);
void expiry_forget(struct client *c, const char *id); // it ended, or runs again
void expiry_forget_all(struct client *c);

// ---- which dialect a server speaks: found out by asking it once (identify.c)

// Sets c->dialect when it is found.
struct identify *identify_new(struct client *c);
void identify_free(struct identify *id); // no call waits, and the client's HTTP is closed
bool identify_is_done(const struct identify *id);
// Call `w` once the dialect is known or the server could not be asked; it may be called before this
// returns. After a failure the next call asks again.
void identify_wait(struct identify *id, struct server_waiter *w);
void identify_forget(struct identify *id, struct server_waiter *w);

// Return the dialect of a server with this answer to GET /health; NULL: not certain. Pure.
const struct dialect *identify_judge(int status, const char *body);
