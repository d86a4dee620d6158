// SPDX-License-Identifier: Apache-2.0
// A sandbox: its identity, its state and its end time.
//
//   create:    CREATING --------------------------> RUNNING
//   pool:      CREATING --> POOLED --> RESUMING --> RUNNING
//   adopt:     CREATING --> RUNNING, PAUSED or POOLED, as its record says
//   freeze:    RUNNING --> PAUSING --> PAUSED                (RUNNING when it fails)
//   hibernate: PAUSED --> PAUSING --> PAUSED
//   wake:      PAUSED --> RESUMING --> RUNNING               (PAUSED when it fails)
//   rollback:  RUNNING or PAUSED --> PAUSING --> RESUMING --> RUNNING
//   end:       any --> KILLING --> DEAD
//
// sandbox_set_state checks each change against a table. PAUSING and RESUMING last as long as the
// operation in the slot (operation.h); a save leaves the state as it is.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "sandbox-backend/base/sandbox_id.h"
#include "sandbox-backend/daemon/calls/call_log.h"
#include "sandbox-backend/daemon/limits/guest_usage.h"
#include "sandbox-backend/daemon/limits/host_usage.h"
#include "sandbox-backend/daemon/sandbox/ended_log.h"
#include "sandbox-backend/daemon/sandbox/journal.h"
#include "sandbox-backend/daemon/sandbox/operation.h"
#include "sandbox-backend/daemon/sandbox/upstream.h"
#include "sandbox-backend/drivers/driver.h"
#include "sandbox-backend/net/deadline.h"

struct store;
struct port;
struct proxy_stream;
struct guest_call;
struct bringup;
struct pausing;
struct mounts;

// Which mounts a copy of a guest keeps; it unmounts the others.
enum mounts_kept { MOUNTS_KEPT_ALL, MOUNTS_KEPT_VOLUMES, MOUNTS_KEPT_NONE };
struct sandbox_ground;

enum sandbox_state {
    SANDBOX_CREATING, // its machine starts or is being adopted; no caller may use it yet
    SANDBOX_POOLED,   // a ready pool member: frozen, without an owner, hidden from callers
    SANDBOX_RUNNING,
    SANDBOX_PAUSING,  // its machine is being frozen or saved; requests do not reach the guest
    SANDBOX_PAUSED,   // frozen, or hibernated
    SANDBOX_RESUMING, // its machine is resumed or made from an image, and /init is awaited
    SANDBOX_KILLING,  // it is being ended; hidden from callers
    SANDBOX_DEAD,     // only this object is left
};

// The end of an operation: called exactly once, from the loop, never inside the call that started
// it. With `e` NULL the operation succeeded. With ERR_GONE `sb` is NULL.
typedef void (*sandbox_cb)(struct sandbox *sb, const struct err *e, void *ctx);

// When a sandbox without use is put to sleep (sleep/pause.h).
#define IDLE_FREEZE_S    60 // defaults of the daemon's options
#define IDLE_HIBERNATE_S 600
#define IDLE_MAX_S       (365LL * 24 * 3600)

struct idle_policy {
    int64_t freeze_ms;    // time without use; 0: never
    int64_t hibernate_ms; // time without use, or since the pause; 0: never
};

// The daemon's samples of a sandbox's use. Instants are on the monotonic clock.
struct idle {
    struct idle_policy policy;
    struct guest_call *call;   // asks envd which commands run
    int64_t asked_ms;          // when `call` began
    int64_t sampled_ms;        // when cpu_ns and net_bytes were read; 0: never
    int64_t cpu_ns, net_bytes; // of the machine
    int64_t again_ms;          // do not hibernate before this, after a failure
    int failures;              // of hibernation, in a row
};

// Numbers of the last contacts of a machine (base/net_stats.h) that the call log has. Another
// machine counts from 0.
struct net_noted {
    uint64_t refused[MACHINE_NETS];
    uint64_t reached;
    uint64_t journaled[MACHINE_NETS]; // refusals that the journal has, which may be more
};

struct sandbox {
    TAILQ_ENTRY(sandbox) link; // in store.sandboxes
    struct store *store;       // borrowed
    char id[SANDBOX_ID_MAX + 1];
    enum sandbox_state state;
    char *dir;        // owned; <home>/sandboxes/<id>
    char *template;   // owned; name of the template
    char *build;      // owned; the template's build (templates_build); NULL: unknown
    char *token;      // owned; envd's access token, NULL when it was created with secure:false
    char *owner;      // owned; name of the API key that created it; NULL: the unix socket
    json_t *metadata; // owned; object of strings
    json_t *secrets;  // owned; secrets.h; NULL: none
    struct net_policy policy; // what its guest may connect to
    struct net_noted noted;   // of its machine
    int64_t reached_ms;       // monotonic; when hosts were last noted
    int64_t reached_paid_ms;  // monotonic; before then, fewer lines of hosts may be written,
    int64_t refused_paid_ms;  // and of refusals
    struct machine_facts facts;
    struct machine *machine; // owned; NULL before it is ready and after its end
    struct upstream upstream;
    LIST_HEAD(sandbox_ports, port) ports;             // exposed ports; borrowed
    LIST_HEAD(sandbox_streams, proxy_stream) streams; // proxied requests; borrowed
    size_t stream_count;      // open or waiting, including raw connections to exposed ports
    size_t passive_count;     // how many of them are passive streams
    bool unclaimed;           // a pool member that no caller has claimed
    json_t *handout_env;      // owned; environment, until the guest has it (pool/handout.c)
    struct mounts *mounts;    // owned by mounts/; directories of the host; NULL: none
    struct call_log *calls;   // owned; what was done in it (calls/call_log.h)
    char *parent;             // owned; id of the sandbox that it was forked from; NULL: none
    char *snapshot;           // owned; id of the snapshot it was created from; NULL: a template
    struct machine_size size; // as asked for; 0: the template's
    char *image;              // owned; of a sandbox without a machine: "" means <dir>/image,
                              // else it is the id of a snapshot. NULL: it has a machine
    json_t *disk_env;         // owned; its image has a disk alone, and this is the environment for
                              // the guest that boots from it. NULL: the image has its memory
    int64_t used_ms;          // monotonic; time of the last use
    struct idle idle;         // for the sleep
    struct journal journal;
    struct guest_usage guest_usage;
    struct guest_call *guest_usage_call; // of a measurement in progress
    struct host_usage usage;
    struct ticket *ticket; // while it waits for room (admission.h)
    bool late_quiesce; // a timed-out /freeze may still take effect; send /unfreeze after the wake
    unsigned holds;    // the end waits until this is 0 (ending.h)
    bool booted; // this daemon booted its machine, because of its size, and did not restore it
    bool asleep; // paused for lack of use: callers see it as running, any request wakes it

    // A move to another node (sleep/move.h).
    char *moving;          // owned; the node that gets it; NULL: it stays
    char *move_name;       // owned; name of its last move (arrivals.h), also after it; NULL: none
    bool moving_ran;       // it ran when the move began, so it is woken there
    bool stays;            // it cannot be moved, so it wakes here while others are moved
    struct operation move; // in the slot while requests wait for the end of the move
    int64_t hold_ms;       // monotonic; when they stop waiting; 0: none waits

    // The operation under way (operation.h).
    struct operation *op;           // borrowed; NULL: none
    struct operation *cancelled;    // borrowed; cancelled by the sandbox's end, its on_gone is due;
                                    // NULL: none
    struct operation_wishes wishes; // waiting for the slot; borrowed
    struct deadline turn;           // runs the wishes, later the removal steps (ending.c)
    struct bringup *bringup;        // owned; during a bring-up (bringup.h)
    bool network_unknown;           // a change of its rules failed (network_change.h)
    struct network_change
        *network_change;     // owned; while its header rules change; NULL: they do not
    struct pausing *pausing; // owned by sleep/; while a request for a pause or wake waits
    const struct sandbox_ground *ground; // borrowed; during a rollback, the record describes this

    // Settings that the proxy reads.
    char *traffic_token;     // owned; all ports but envd's require it (e2b-traffic-access-token);
                             // NULL: none (network.allowPublicTraffic)
    char *mask_request_host; // owned; the Host that the guest sees; "${PORT}" means the port;
                             // NULL: the client's
    bool auto_resume;        // a request wakes it even if it is paused
    bool auto_pause;         // at its end time it is paused, not killed
    bool auto_pause_disk;    // that pause keeps its disk alone
    bool sliding;            // each use moves the end time to now + timeout_ms (Cubby's extension)

    // Life. The monotonic clock decides, since a change of the host's date does not move it. The
    // end time on the wall clock is stored as well, so that each answer shows the same text.
    int64_t timeout_ms;
    int64_t first_timeout_ms;  // of the create; a request that resumes the sandbox gives it again
    int64_t started_ns;        // wall clock; sandbox_set_started
    int64_t end_ms;            // monotonic
    int64_t end_ns;            // wall clock
    int64_t stored_end_ms;     // end_ms in the record
    int64_t record_again_ms;   // when to write the record again after a failure; 0: the record is
                               // up to date
    int64_t end_logged_ms;     // monotonic; when the event log got a new end time; 0: not yet
    int64_t network_logged_ms; // the same for new rules of the network

    // The end (ending.c).
    enum ended_why why;
    char *why_detail; // owned, may be NULL
    bool forget;      // no caller knew it, so the ended log gets no entry
    bool released;    // the daemon stops, and the machine stays for the next one
    bool cleaning;    // the machine and the connections are gone
    void (*on_ended)(void *ctx);
    void *on_ended_ctx;
};

// A sandbox's machine or image, and its size. During a rollback this describes the sandbox before
// the rollback, to which a failure returns.
struct sandbox_ground {
    struct machine *machine; // NULL: hibernated
    char *image, *build;
    struct machine_facts facts;
    struct machine_size size;
    enum sandbox_state state;
    bool aside; // the machine's files are put aside, or will be next (files.h)
};

// Make a sandbox in state CREATING, with this id (NULL: a new one), and put it into the store.
struct sandbox *sandbox_new(struct store *store, const char *id);
void sandbox_free(struct sandbox *sb); // take it out of the store and free it; it must be DEAD

// Return the sandbox's present machine or image, with its size and state. The strings are borrowed.
struct sandbox_ground sandbox_ground_now(const struct sandbox *sb);
// Return the directory of the sandbox's image, which it has while it is hibernated. New string.
char *sandbox_image_dir(const struct sandbox *sb);
// Return the machine_spec for the driver. It borrows from `sb` and from `template`, the template's
// directory.
struct machine_spec sandbox_machine_spec(const struct sandbox *sb, const char *template);
// Set `out` to the machine_spec's `egress` for a machine that is started: a new string, which the
// caller wipes (secrets_wipe), or NULL. A missing secret is an error, because programs would send
// its placeholder as text.
int sandbox_egress(struct sandbox *sb, char **out, struct err *e);
// The same for other secrets than the sandbox's own, and without a line in its log.
int sandbox_egress_of(struct sandbox *sb, const json_t *secrets, char **out, struct err *e);

// Return where lines about the sandbox belong in the call log. Valid until it is freed.
struct call_place sandbox_calls(const struct sandbox *sb);
void sandbox_hide_tokens(const struct sandbox *sb); // from its call log

void sandbox_set_state(struct sandbox *sb, enum sandbox_state to);
const char *sandbox_state_name(enum sandbox_state state);
// Return true if callers can see the sandbox: it is running, pausing, paused or resuming.
static inline bool sandbox_is_known(const struct sandbox *sb)
{
    return sb->state >= SANDBOX_RUNNING && sb->state <= SANDBOX_RESUMING;
}

// Return true if callers see the sandbox as running. It may be asleep; a request then wakes it.
static inline bool sandbox_shows_running(const struct sandbox *sb)
{
    return sb->state == SANDBOX_RUNNING || (sandbox_is_known(sb) && sb->asleep);
}
// Return true if the sandbox is paused without a machine, so that it takes no memory of the host.
static inline bool sandbox_is_hibernated(const struct sandbox *sb)
{
    return sb->state == SANDBOX_PAUSED && !sb->machine;
}

// Set the start time to now, in the turn in which callers first see the sandbox. It is later than
// the start time of every sandbox that callers could see before. If two sandboxes have the same
// name, clients decide by the start time which one to keep.
void sandbox_set_started(struct sandbox *sb);
// Set the end time to `ms` from now.
void sandbox_set_end(struct sandbox *sb, int64_t ms);
// Do the same, but never move the end time to an earlier instant.
void sandbox_extend_end(struct sandbox *sb, int64_t ms);
// Note a use, and move the end time of a sliding sandbox.
void sandbox_touch(struct sandbox *sb);
// Note a use if a stream that is not passive is open.
void sandbox_touch_if_used(struct sandbox *sb);
// Return the ended log's entry for a sandbox in state KILLING. Its strings are borrowed.
struct ended_entry sandbox_ending_entry(const struct sandbox *sb);
