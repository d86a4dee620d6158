// SPDX-License-Identifier: Apache-2.0
// Who is told what changes: a session of the handshake era, or one subscriptions/listen.
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "mcp-server/catalog.h"

struct exchange;
struct session;
struct toolbox;

#define SUBSCRIBER_URIS_MAX 100 // of one subscriber

// ---- what changed
// A list: tells each legacy session, and each listen that asked for it. Only for lists that the
// catalogue advertises as changing.
void subscriber_list_changed(struct toolbox *t, enum catalog_list list);
// A resource, for sources that have nothing to watch: all who subscribed to exactly this URI.
void subscriber_resource_changed(struct toolbox *t, const char *uri);

// ---- for the methods
// A legacy session that was initialized; does nothing unless a list can change.
void subscriber_open_session(struct session *s);
void subscriber_close_session(struct session *s); // when the session closes; may have none
// resources/subscribe and resources/unsubscribe; end the exchange, now or later.
void subscriber_add(struct exchange *x, const char *uri);
void subscriber_remove(struct exchange *x, const char *uri);
// subscriptions/listen with the `notifications` of its params: acknowledges, and goes on until the
// exchange is cancelled or the server ends. `wanted` is gone after it.
void subscriber_listen(struct exchange *x, const json_t *wanted);
