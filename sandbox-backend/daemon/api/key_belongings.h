// SPDX-License-Identifier: Apache-2.0
// The secrets, webhooks and events that belong to the name of an API key, and their removal.
//
// The keys file records when a key was removed for good ("removed", keys/token_file.h), and several
// daemons may use the file or copies of it. Each daemon carries out each removal once: it removes
// what it has of the name, and then remembers the removal's time in <home>/keys-removed.json. A
// removal is due if its time is later than the remembered one. So what a later key of that name
// makes stays. A name that the file lacks, or a file that cannot be read, removes nothing.
//
// The daemon carries out removals at its start, when a request finds the file changed (before a new
// key of that name is admitted), and every few seconds. A removal that fails, or that cannot be
// remembered, is logged and stays due. Until it succeeds, requests with a key of its name get 503:
// the key would see what belonged to the earlier one, or lose what it makes now.
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/net/deadline.h"

struct api_keys;
struct store;

// Return whether a secret, a webhook or an event log belongs to this name.
bool key_belongings_exist(const struct store *store, const char *name);
// Remove what belongs to the name. A failure leaves the rest, so it can be called again.
int key_belongings_remove(struct store *store, const char *name, struct err *e);

struct key_belongings {
    struct store *store;   // borrowed
    struct api_keys *keys; // borrowed
    char *path;            // owned
    json_t *done;          // owned; {NAME: time of the last removal that was carried out}
    bool is_behind;        // a removal failed
    struct deadline look;
};

// Read keys-removed.json, follow the keys file (api_keys_watch), and carry out what is due. Both
// other objects must be open, and live as long as this one. ERR_INVALID: the file is damaged.
int key_belongings_open(struct key_belongings *b, struct store *store, struct api_keys *keys,
                        struct err *e);
// Look at the keys file every few seconds from now on.
void key_belongings_follow(struct key_belongings *b);
void key_belongings_close(struct key_belongings *b); // the timer closes in the loop's next turns
void key_belongings_fini(struct key_belongings *b);  // after the loop has ended
