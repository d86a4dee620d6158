// SPDX-License-Identifier: Apache-2.0
// The ends of sandboxes on a server that keeps no time (CubeSandbox): kept here, in memory. They
// are lost with this process, whose sandboxes then stay until somebody ends them. For client/ only.
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct client;
struct expiry;

#define EXPIRY_MAX 10000 // sandboxes of a client whose end is kept

// The sandbox is ended in `seconds` from now, whatever was said before. False: too many are kept.
bool expiry_set(struct client *c, const char *id, int64_t seconds);
// It is paused, and has no end until it is forgotten here and set anew. Of one whose end is not
// kept nothing is noted.
void expiry_hold(struct client *c, const char *id);
void expiry_forget(struct client *c, const char *id); // it was ended, or goes on
void expiry_forget_all(struct client *c);
