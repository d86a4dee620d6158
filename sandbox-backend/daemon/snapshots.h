// SPDX-License-Identifier: Apache-2.0
// The snapshots of this home: states of sandboxes that others are created from.
//
//   <home>/snapshots/<id>/
//     snapshot.json   what it is a snapshot of; mode 0600, as it holds the access token of its
//     guest image/          what machine_save left
//   .new-<id>         one that is being made, .gone-<id> one that is being removed, .fork-<random>
//   an
//                     image that only a fork needs: hidden, and removed when a daemon starts
//
// An image is relative to its template, never to another image. So a snapshot outlives the sandbox
// that it is of, and needs its template as it was built: a rebuilt one makes it useless, which
// templates_find says. What needs a snapshot is a sandbox whose record has it as its image
// (rollback), or one that is just being created from it.
//
// All are in memory, in the order of their age. Ids cannot be guessed; names are their owner's: the
// newest of an owner's that was given a name has it.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/drivers/driver.h"

#define SNAPSHOT_ID_PREFIX "snap-"
#define SNAPSHOT_ID_LEN    25 // the prefix, and 20 of [a-z0-9]
#define SNAPSHOT_NAME_MAX  128

struct snapshot {
    TAILQ_ENTRY(snapshot) link; // in snapshots.all
    char id[SNAPSHOT_ID_LEN + 1];
    char *dir;        // owned; <home>/snapshots/<id>
    char *image;      // owned; in it
    char *name;       // owned; NULL: none
    char *owner;      // owned; of the sandbox it is of; NULL: the unix socket's
    char *sandbox;    // owned; its id
    char *template;   // owned; that the image is relative to
    char *build;      // owned; which one of that name: templates_build
    char *token;      // owned; that envd in it has; NULL: none
    json_t *metadata; // owned; of the sandbox, then
    json_t *policy;   // owned; its network policy, then (net_policy_to_json); NULL: not known
    struct machine_size size;
    struct machine_facts facts;
    int64_t created_ns;    // wall clock
    int64_t bytes;         // on the disk
    int64_t standstill_us; // of the sandbox, for it
};
TAILQ_HEAD(snapshot_list, snapshot);

struct snapshots {
    char *dir;                // owned; <home>/snapshots
    struct snapshot_list all; // the newest first
    size_t count;
    struct snapshot_list making; // not there yet, but they count
};

// Makes <home>/snapshots, removes what is hidden there, and reads the rest; what cannot be read is
// logged and left alone.
int snapshots_open(struct snapshots *s, const char *home, struct err *e);
void snapshots_fini(struct snapshots *s);

// By its id or its name, with ":default" or ":latest" behind it or without, among those of `owner`
// (NULL: all); NULL when there is none. Borrowed until the next turn of the loop.
struct snapshot *snapshots_find(const struct snapshots *s, const char *owner, const char *wanted);
bool snapshots_is_id(const char *text);
// Whether a name is still this one's, not a newer one's.
bool snapshots_has_name(const struct snapshots *s, const struct snapshot *snap);
// How many there are or are being made, and their bytes, of `owner`, or with `all` of everybody.
size_t snapshots_count(const struct snapshots *s, const char *owner, bool all, int64_t *bytes);

// A new one, with an id of its own, or with this one; not in the list yet.
struct snapshot *snapshot_new(const struct snapshots *s);
struct snapshot *snapshot_named(const struct snapshots *s, const char *id);
void snapshot_free(struct snapshot *snap); // it is not in the list
// Into the list, or out of it.
void snapshots_add(struct snapshots *s, struct snapshot *snap);
void snapshots_remove(struct snapshots *s, struct snapshot *snap);
// The directory while it is hidden: "new" or "gone". New string.
char *snapshot_hidden(const struct snapshots *s, const char *what, const char *id);

// snapshot.json in `dir`. Writing syncs it; reading fills a new one whose id the directory says.
int snapshot_write(const struct snapshot *snap, const char *dir, struct err *e);
struct snapshot *snapshot_read(const struct snapshots *s, const char *id, struct err *e);
