// SPDX-License-Identifier: Apache-2.0
// A receiver of changes: a session of the legacy era, or one subscriptions/listen.
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "mcp-server/context/catalog.h"

struct exchange;
struct session;
struct context;

#define SUBSCRIBER_URIS_MAX 100 // of one subscriber

// ---- what changed
// Report a changed list to each legacy session, and to each listen that asked for it. Only for
// lists that the catalogue advertises as changing.
void subscriber_list_changed(struct context *cx, enum catalog_list list);
// Report a changed resource to all subscribers of exactly this URI, for sources without a watch.
void subscriber_resource_changed(struct context *cx, const char *uri);

// ---- for the methods
// Subscribe an initialized legacy session to lists; does nothing unless a list can change.
void subscriber_open_session(struct session *s);
void subscriber_close_session(struct session *s); // when the session closes
// Do resources/subscribe and resources/unsubscribe; end the exchange, now or later.
void subscriber_add(struct exchange *x, const char *uri);
void subscriber_remove(struct exchange *x, const char *uri);
// Do subscriptions/listen with the `notifications` of its params: acknowledge, and notify until the
// exchange is cancelled or the server ends. `wanted` is not used after the call.
void subscriber_listen(struct exchange *x, const json_t *wanted);
