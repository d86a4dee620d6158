// SPDX-License-Identifier: Apache-2.0
// The lifecycle of sandboxes as events, in the form of E2B's events API.
//
//   events.jsonl     the newest events, one JSON object per line, mode 0600
//   events.1.jsonl   the events before them
//
// There is a pair of these files in <home>/events/key-NAME/ for each API key that has events, and
// in <home> for the unix socket. So no owner's events replace those of another. The first file
// becomes the second when it has EVENTS_FILE_BYTES, or EVENTS_KEY_BYTES for an API key. Events
// older than EVENTS_AGE_NS are not shown. The files of a key that has had no event since then are
// removed, daily, and with the key.
//
// A line is E2B's event and a member "owner". If the sandbox's metadata has more than
// EVENTS_METADATA_BYTES, the line has {} in its place. Each event goes to the webhooks of its owner
// as well (webhooks.h), always with the metadata.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/daemon/events/readings.h"
#include "sandbox-backend/daemon/events/webhooks.h"

#define EVENTS_FILE_BYTES     (8L << 20)
#define EVENTS_KEY_BYTES      (1L << 20)
#define EVENTS_AGE_NS         (7LL * 24 * 3600 * 1000000000)
#define EVENTS_METADATA_BYTES 1024 // as JSON
#define EVENTS_KEYS           1000 // with files of their own; those of further keys go to <home>
#define EVENTS_READ_BYTES     (64L << 20) // for the unix socket

enum event_type {
    EVENT_CREATED,
    EVENT_UPDATED, // another end time, or other rules of the network
    EVENT_PAUSED,
    EVENT_RESUMED,
    EVENT_CHECKPOINTED, // a snapshot was taken
    EVENT_KILLED,       // it ended, for any reason
    EVENT_TYPES,
};

// All strings are borrowed.
struct event {
    enum event_type type;
    const char *sandbox, *template;
    const char *build; // NULL: unknown
    const char *owner; // name of the API key; NULL: the unix socket
    json_t *data;      // borrowed; E2B's eventData
    bool unlogged;     // only the webhooks get it
};

struct events {
    char *home;               // owned
    int64_t dropped_ns;       // when the files of keys without events were last removed
    struct readings readings; // of the event log
    struct webhooks webhooks;
};

bool events_has_log_of(const struct events *ev, const char *owner);
// Remove the files of an API key.
int events_remove_of(const struct events *ev, const char *owner, struct err *e);

// Open the event log and read the webhooks. ERR_INVALID: the webhooks' file is damaged. If an event
// cannot be logged, the daemon's log says so, and it goes to the webhooks alone.
int events_open(struct events *ev, uv_loop_t *loop, const char *home,
                const struct fetch_guard *guard, struct err *e);
// End all deliveries. The handles close in the loop's next turns.
void events_close(struct events *ev);
void events_fini(struct events *ev); // after the loop has ended

void events_add(struct events *ev, const struct event *event);

// Return the type of this name, such as "sandbox.lifecycle.created"; EVENT_TYPES: there is none.
enum event_type event_type_of(const char *name);
const char *event_type_name(enum event_type type);
// Add the types of these names, with commas between, to a set. ERR_INVALID names an unknown one.
int event_types_add(const char *names, unsigned *types, struct err *e);
// Return the team that an event or a webhook of this owner shows.
const char *event_team(const char *owner);

struct events_query {
    const char *home;    // of struct events
    const char *sandbox; // NULL: of all
    const char *owner;   // NULL: of all
    unsigned types;      // bit set
    bool ascending;      // the oldest first
    int64_t offset, limit;
};
// Return the array of events. New reference. Blocking: for a worker, as the next.
json_t *events_read(const struct events_query *q);
// Call `each` for every event that the query wants, whatever its offset and limit are, until it
// returns false. The event is borrowed for the call.
typedef bool events_cb(json_t *event, void *ctx);
void events_each(const struct events_query *q, events_cb *each, void *ctx);
