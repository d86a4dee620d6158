// SPDX-License-Identifier: Apache-2.0
// Between subscriber.c, subscriber_listen.c and subscription.c.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "mcp-server/catalog.h"
#include "mcp-server/protocol/exchange.h"

struct resource_source;

struct subscription {
    struct subscription *next;
    struct subscriber *owner;
    const struct resource_source *source;
    char *uri;              // owned
    void *state;            // the source's
    bool is_asked;          // its source was asked to watch it
    bool is_started;        // and does
    bool is_changed;        // and that was not told yet
    uint64_t changed_ms;    // when it first did of these
    uint64_t told_ms;       // when it was last told; 0: never
    struct exchange *asked; // resources/subscribe, while it is not answered
};

struct subscriber {
    struct subscriber *prev, *next; // of the toolbox
    struct toolbox *toolbox;        // borrowed
    struct session *session;        // held
    struct exchange *exchange;      // a listen's; NULL: the session itself
    bool wants[CATALOG_LISTS];
    bool list_changed[CATALOG_LISTS]; // and was not told so yet
    struct subscription *first;       // in the order in which they were asked for
    int count;
    int asking;      // sources that have not answered
    bool is_looping; // in subscription__ask
    bool is_open;    // may be told
    uv_timer_t timer;
};

// ---- subscriber.c
struct subscriber *subscriber__new(struct session *s, struct exchange *x);
void subscriber__close(struct subscriber *u); // ends its exchange later, if it has one still
void subscriber__tell(struct subscriber *u, const char *method, json_t *params /* taken */);
void subscriber__tell_updated(struct subscription *s);
void subscriber__flush(struct subscriber *u); // tells what is due, and comes back for the rest

// ---- subscriber_listen.c
extern const char *const SUBSCRIBER__LIST_NAMES[CATALOG_LISTS]; // in `notifications`
void subscriber__acknowledge(struct subscriber *u);

// ---- subscription.c
struct subscription *subscription__find(const struct subscriber *u, const char *uri);
// NULL: there is nobody to watch it, or the subscriber has enough. Its source is asked by
// subscription__ask, which asks some at a time, and may free what it asks for.
struct subscription *subscription__new(struct subscriber *u, const char *uri);
void subscription__ask(struct subscriber *u);
void subscription__drop(struct subscription *s);
