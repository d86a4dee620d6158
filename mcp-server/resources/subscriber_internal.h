// SPDX-License-Identifier: Apache-2.0
// Between subscriber.c, subscriber_listen.c and subscription.c.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "mcp-server/context/catalog.h"
#include "mcp-server/protocol/exchange.h"

struct resource_source;

struct subscription {
    struct subscription *next;
    struct subscriber *owner;
    const struct resource_source *source;
    char *uri;              // owned
    void *state;            // the source's
    bool is_asked;          // its source was asked to watch the URI
    bool is_started;        // the source watches
    bool is_changed;        // a change has not been reported yet
    uint64_t changed_ms;    // time of the first unreported change
    uint64_t told_ms;       // time of the last report; 0: none
    struct exchange *asked; // resources/subscribe, while it is not answered
};

struct subscriber {
    struct subscriber *prev, *next; // of the context
    struct context *context;        // borrowed
    struct session *session;        // held
    struct exchange *exchange;      // a listen's; NULL: the session itself
    bool wants[CATALOG_LISTS];
    bool list_changed[CATALOG_LISTS]; // not reported yet
    struct subscription *first;       // in the order in which they were asked for
    int count;
    int asking;      // sources that have not answered yet
    bool is_looping; // in subscription__ask
    bool is_open;    // gets notifications
    uv_timer_t timer;
};

// ---- subscriber.c
struct subscriber *subscriber__new(struct session *s, struct exchange *x);
void subscriber__close(struct subscriber *u); // ends its exchange later, if it still has one
void subscriber__tell(struct subscriber *u, const char *method, json_t *params /* taken */);
void subscriber__tell_updated(struct subscription *s);
void subscriber__flush(struct subscriber *u); // sends what is due, and sets the timer for the rest

// ---- subscriber_listen.c
extern const char *const SUBSCRIBER__LIST_NAMES[CATALOG_LISTS]; // in `notifications`
void subscriber__acknowledge(struct subscriber *u);

// ---- subscription.c
struct subscription *subscription__find(const struct subscriber *u, const char *uri);
// Return a new subscription. NULL: no source can watch the URI, or the subscriber has too many.
// subscription__ask asks the source; it asks a few at a time and may free subscriptions.
struct subscription *subscription__new(struct subscriber *u, const char *uri);
void subscription__ask(struct subscriber *u);
void subscription__drop(struct subscription *s);
