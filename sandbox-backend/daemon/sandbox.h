// SPDX-License-Identifier: Apache-2.0
// One sandbox: what it is, its state, and how long it may live.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "sandbox-backend/base/home.h"
#include "sandbox-backend/daemon/ended.h"
#include "sandbox-backend/daemon/idle.h"
#include "sandbox-backend/daemon/journal.h"
#include "sandbox-backend/daemon/meter.h"
#include "sandbox-backend/daemon/ports.h"
#include "sandbox-backend/daemon/upstream.h"
#include "sandbox-backend/daemon/usage.h"
#include "sandbox-backend/drivers/driver.h"
#include "sandbox-backend/net/deadline.h"

struct store;
struct proxy_stream;
struct creation;
struct handout;
struct pooled;
struct adoption;
struct pausing;
struct rollback;
struct saving;

enum sandbox_state {
    SANDBOX_CREATING, // its machine starts (or is being found again); nobody may use it yet
    SANDBOX_POOLED,   // ready, stopped, nobody's yet, unknown to every caller (pool.h)
    SANDBOX_RUNNING,
    SANDBOX_PAUSING,  // its machine is being stopped (pause.h); no request gets in any more
    SANDBOX_PAUSED,   // its machine stands still, or there is none and its image is on the disk
    SANDBOX_RESUMING, // its machine goes on, and its clock is being set
    SANDBOX_KILLING,  // its machine is being ended; unknown to every caller from here on
    SANDBOX_DEAD,     // nothing is left of it but this object, which goes next
};

struct sandbox {
    TAILQ_ENTRY(sandbox) link; // in store.sandboxes
    struct store *store;       // borrowed
    char id[SANDBOX_ID_LEN + 1];
    enum sandbox_state state;
    int found;        // enum record_state, while it is being adopted
    char *dir;        // owned; <home>/sandboxes/<id>
    char *template;   // owned; name of the template
    char *build;      // owned; which one of that name (templates_build); NULL: it is not known
    char *token;      // owned; envd's access token, NULL when it was created with secure:false
    char *owner;      // owned; name of the API key that made it; NULL: made on the unix socket
    json_t *metadata; // owned; object of strings
    json_t *secrets;  // owned; secrets.h; NULL: none
    struct net_policy policy;         // what it may open to the outside
    uint64_t net_noted[MACHINE_NETS]; // number of the last refusal that stands in the journal
    struct machine_facts facts;
    struct machine *machine; // owned; NULL before it is ready and after it is gone
    struct upstream upstream;
    struct ports ports;                               // that it exposes
    LIST_HEAD(sandbox_streams, proxy_stream) streams; // requests being proxied. Borrowed
    size_t stream_count;       // raw connections to exposed ports and waits for them, too
    size_t passive_count;      // of them: those whose being open is no use of it
    struct creation *creation; // owned; while CREATING (create.c)
    struct pooled *pooled;     // owned; while it is the pool's (pooled.h)
    struct handout *handout;   // owned; while it is handed out (handout.h)
    json_t *handout_env;       // owned; its environment, until its guest has it (handout.h)
    struct adoption *adoption; // borrowed; until its machine was found (adopt.c)
    char *snapshot;            // owned; id of the one it was made from; NULL: from its template
    struct machine_size size;  // what was asked for; 0: the template's
    char *image;               // owned; what it goes on from when it has no machine: "" is
                               // <dir>/image, else the id of a snapshot. NULL: it has a machine
    int64_t used_ms;           // monotonic; when it was used last
    struct idle idle;          // when it is put to sleep
    struct journal journal;    // what happened to it
    struct meter meter;        // what it uses, as its guest sees it
    struct usage usage;        // what it uses of the host
    struct ticket *ticket;     // owned; while it waits for room (waiting.c)
    TAILQ_HEAD(sandbox_savings, saving) savings; // of its state (sandbox_image.c). Borrowed
    struct pausing *pausing;                     // owned; while PAUSING or RESUMING (pause.c)
    struct rollback *rollback; // owned; while it is rolled back: what it was (rollback.h)
    bool stills_late;          // its guest may freeze its processes when nobody wants it any more
    unsigned holds;            // what its end waits for (ending.h)
    bool booted;               // for its size, rather than restored; of this daemon's creations
    bool asleep;               // PAUSED for want of use: to callers it runs, any request wakes it
    struct deadline wait;      // makes the steps of its removal (ending.c)

    // What the proxy goes by.
    char *traffic_token;     // owned; e2b-traffic-access-token that every port but envd's needs;
                             // NULL: none (network.allowPublicTraffic)
    char *mask_request_host; // owned; the Host that the guest sees, "${PORT}" stands for the port;
                             // NULL: the client's
    bool auto_resume;        // a request for a paused one wakes it
    bool auto_pause;         // when its time is over it is paused, not killed
    bool sliding;            // a Cubby extension: activity moves the end to now + timeout_ms

    // Life. Instants are on the monotonic clock, which a change of the host's date does not move;
    // the wall clock's text of the end is kept beside it so that it reads the same each time.
    int64_t timeout_ms;
    int64_t started_ns;      // wall clock
    int64_t end_ms;          // monotonic
    int64_t end_ns;          // wall clock
    int64_t stored_end_ms;   // end_ms as sandbox.json has it
    int64_t record_again_ms; // when sandbox.json, which could not be written, is tried again; 0:
                             // it says what is so

    // How it ends (ending.c).
    enum ended_why why;
    char *why_detail; // owned, may be NULL
    bool forget;      // it was never handed out: no record of its end is kept
    bool released;    // its machine goes on without this daemon
    bool cleaning;    // machine and connections are gone
    void (*on_ended)(void *ctx);
    void *on_ended_ctx;
};

// A new sandbox in state CREATING with an id of its own (or the one given), put into the store.
struct sandbox *sandbox_new(struct store *store, const char *id);
void sandbox_free(struct sandbox *sb); // only once DEAD; takes it out of the store

// What the driver is told of it. Borrows from it and from `template`, the template's directory.
struct machine_spec sandbox_machine_spec(const struct sandbox *sb, const char *template);
// Its `egress`, for a machine that is started: new string, to be wiped (secrets_wipe), or NULL.
// An error where one of its secrets is not to be had: programs would send placeholders as text.
int sandbox_egress(struct sandbox *sb, char **out, struct err *e);

void sandbox_set_state(struct sandbox *sb, enum sandbox_state to);
const char *sandbox_state_name(enum sandbox_state state);
// Whether callers may know of it: it is there, running or paused or in between.
static inline bool sandbox_is_known(const struct sandbox *sb)
{
    return sb->state >= SANDBOX_RUNNING && sb->state <= SANDBOX_RESUMING;
}

// To callers it runs: a request for it is taken, and wakes it where it sleeps.
static inline bool sandbox_shows_running(const struct sandbox *sb)
{
    return sb->state == SANDBOX_RUNNING || (sandbox_is_known(sb) && sb->asleep);
}
// It has no machine, and takes none of the host's memory.
static inline bool sandbox_is_hibernated(const struct sandbox *sb)
{
    return sb->state == SANDBOX_PAUSED && !sb->machine;
}

// The end is `ms` from now.
void sandbox_set_end(struct sandbox *sb, int64_t ms);
// The same, but never earlier than it already is.
void sandbox_extend_end(struct sandbox *sb, int64_t ms);
// Somebody uses it: moves the end of a sliding one.
void sandbox_touch(struct sandbox *sb);
// The same if somebody uses it all the time, by an open stream that is not passive.
void sandbox_touch_if_used(struct sandbox *sb);
// Whether it has to end now. A sliding one may be in use.
bool sandbox_is_due(struct sandbox *sb, int64_t now_ms);
// How one in state KILLING ends, as it will be remembered. Its strings are borrowed.
struct ended_entry sandbox_ending_entry(const struct sandbox *sb);
