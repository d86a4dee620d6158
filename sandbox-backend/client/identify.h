// SPDX-License-Identifier: Apache-2.0
// Which dialect a server speaks, found by asking it once. For client/ only.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/client/daemon_start.h"
#include "sandbox-backend/client/dialect.h"

struct identify;

// Sets c->dialect when it is found.
struct identify *identify_new(struct client *c);
void identify_free(struct identify *id); // nobody waits, and the client's HTTP is closed
bool identify_is_done(const struct identify *id);
// As those of daemon_start.h. A server that could not be asked is asked again by whoever waits
// next.
void identify_wait(struct identify *id, struct daemon_waiter *w);
void identify_forget(struct identify *id, struct daemon_waiter *w);

// What the answer to GET /health says; NULL: nothing that is certain. Pure.
const struct dialect *identify_judge(int status, const char *body);
