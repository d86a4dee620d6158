// SPDX-License-Identifier: Apache-2.0
// Webhooks: URLs that get the lifecycle events of their owner's sandboxes, as E2B's webhooks do.
//
// They are kept in <home>/webhooks.json, mode 0600, with their secrets, which no answer shows. An
// owner has at most WEBHOOKS_MAX. A webhook of an API key reaches public addresses, and those that
// the operator allows (--webhooks-to), so that a tenant cannot make the daemon call services of its
// network. One of the unix socket reaches every address.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/daemon/events/courier.h"

#define WEBHOOKS_MAX           10
#define WEBHOOK_NAME_BYTES_MAX 200
#define WEBHOOK_URL_BYTES_MAX  2000

struct webhook {
    TAILQ_ENTRY(webhook) link;
    char *id;     // owned; a UUID
    char *name;   // owned
    char *url;    // owned
    char *secret; // owned
    char *owner;  // owned; NULL: the unix socket
    bool enabled;
    int64_t types; // bit set of event_type
    int64_t created_ns;
    struct courier *courier; // owned
};

struct webhooks {
    char *path;                // owned
    TAILQ_HEAD(, webhook) all; // the oldest first
    struct couriers couriers;
};

// The members that a client sets. NULL and 0 leave one as it is. All strings are borrowed.
struct webhook_wish {
    const char *name, *url, *secret;
    unsigned types;
    int enabled; // -1: as it is
};

int webhooks_open(struct webhooks *w, uv_loop_t *loop, const char *home,
                  const struct fetch_guard *guard, struct err *e);
void webhooks_close(struct webhooks *w); // ends all deliveries
void webhooks_fini(struct webhooks *w);

struct webhook *webhooks_find(const struct webhooks *w, const char *id); // or NULL
// NULL on failure: ERR_INVALID, or ERR_LIMIT.
struct webhook *webhooks_add(struct webhooks *w, const struct webhook_wish *wish, const char *owner,
                             struct err *e);
int webhooks_change(struct webhooks *w, struct webhook *hook, const struct webhook_wish *wish,
                    struct err *e);
int webhooks_remove(struct webhooks *w, struct webhook *hook, struct err *e);
// Remove all webhooks of an API key. A failure leaves the rest.
int webhooks_remove_of(struct webhooks *w, const char *owner, struct err *e);

// Send an event of this type and owner to all webhooks that want it. `body` is copied.
void webhooks_send(struct webhooks *w, unsigned type, const char *owner, const char *body,
                   size_t len);
