// SPDX-License-Identifier: Apache-2.0
// The snapshots of this home. They lie in <home>/snapshots/:
//
//   <id>/snapshot.json   what the snapshot is of; mode 0600, as it holds the guest's access token
//   <id>/image/          the image (machine_save)
//   .new-<id>/           a snapshot that is being made
//   .gone-<id>/          a snapshot that is being removed
//   .fork-<random>/      the image of a fork in progress
//
// A starting daemon removes the hidden directories.
//
// An image is relative to its template, never to another image. So a snapshot outlives its sandbox,
// but needs the build of the template that it was made with: after a rebuild, templates_find_as
// refuses it. A snapshot cannot be deleted while a sandbox is being created from it, or while the
// record of a sandbox names it as its image (rollback).
//
// A snapshot with a layer key is a layer: the cached result of a step of `cubby template build -f`.
// Layers are hidden. They have no name, no list shows them, they do not count for the limits on the
// number of snapshots, and only the operator can use one, as the template "layer:<key>". The time
// stamp of snapshot.json is that of the layer's last use.
//
// `cubby snapshot import` adds a directory while the daemon runs; snapshots_look finds it.
//
// The list of all snapshots is in memory, ordered by age. Ids cannot be guessed. Names belong to an
// owner: a name means the owner's newest snapshot of that name.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <time.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/sandbox_id.h"
#include "sandbox-backend/drivers/driver.h"

#define SNAPSHOT_ID_PREFIX "snap-"
#define SNAPSHOT_LAYER     "layer:" // and SNAPSHOT_KEY_LEN hexadecimal digits
#define SNAPSHOT_KEY_LEN   64
#define SNAPSHOT_ID_MAX    (5 + SANDBOX_ID_MAX) // the prefix, and the form of a sandbox id

struct snapshot {
    TAILQ_ENTRY(snapshot) link; // in snapshots.all or .making
    char id[SNAPSHOT_ID_MAX + 1];
    char *dir;        // owned; <home>/snapshots/<id>
    char *image;      // owned; in dir
    char *name;       // owned; NULL: none
    char *layer;      // owned; the key of a layer; NULL: this is an ordinary snapshot
    char *owner;      // owned; the sandbox's owner; NULL: the unix socket
    char *sandbox;    // owned; the sandbox's id
    char *template;   // owned; the template that the image is relative to
    char *build;      // owned; the template's build (templates_build)
    char *token;      // owned; the access token of envd in the image; NULL: none
    json_t *metadata; // owned; the sandbox's, at that time
    json_t *policy;   // owned; the sandbox's, at that time (net_policy_to_json); NULL: unknown
    json_t *masks;    // owned; of the sandbox's environment (masks.h); NULL: none
    json_t *disk_env; // owned; of an image of a disk alone (sandbox.disk_env); NULL: with memory
    json_t *mounts;   // owned; what the image's guest has to unmount (mounts_inherit); NULL: none
    struct machine_size size;
    struct machine_facts facts;
    int64_t created_ns;    // wall clock
    int64_t bytes;         // on the disk
    int64_t standstill_us; // of the sandbox, while it was saved
};
TAILQ_HEAD(snapshot_list, snapshot);

struct snapshots {
    char *dir;                // owned; <home>/snapshots
    const char *node;         // borrowed; of new ids; NULL: none
    struct snapshot_list all; // the newest first
    size_t count;
    struct snapshot_list making; // in progress; they count for the limits
    struct timespec looked;      // the time of the directory at the last look
    json_t *damaged; // owned; an object whose keys are directories that are no snapshots
};

// Create <home>/snapshots, remove the hidden directories there, and read the snapshots. A snapshot
// that cannot be read is logged and left alone.
int snapshots_open(struct snapshots *s, const char *home, struct err *e);
void snapshots_fini(struct snapshots *s);
// Read the snapshots that another program has put into the directory since, and drop those that it
// has removed (`cubby snapshot import`, `cubby template gc`). Called before a list is
// shown, and for an id or a name that is unknown.
void snapshots_look(struct snapshots *s);

// Return the snapshot of `owner` (NULL: of any) with this id or name, or NULL. The name may end
// with ":default" or ":latest". Borrowed until the next turn of the loop.
struct snapshot *snapshots_find(const struct snapshots *s, const char *owner, const char *wanted);
bool snapshots_is_id(const char *text);
// Return the key in "layer:<key>", or NULL if the text has another form. Borrowed from `text`.
const char *snapshots_layer_key(const char *text);
// Note that a layer is used now.
void snapshot_touch(const struct snapshot *snap);
// Return the name without ":default" or ":latest". New string.
char *snapshots_plain_name(const char *wanted);
// Return whether the name of `snap` stands for `snap`. False if a newer snapshot has the same name.
bool snapshots_has_name(const struct snapshots *s, const struct snapshot *snap);
// Count the snapshots of `owner`, or with `all` of every owner, and their bytes. Those in progress
// count as well. Layers count only for the bytes.
size_t snapshots_count(const struct snapshots *s, const char *owner, bool all, int64_t *bytes);

struct snapshot *snapshot_new(const struct snapshots *s); // empty, with a new id, and in no list
void snapshot_free(struct snapshot *snap);                // it must be in no list
// Put a snapshot into the list of all, or take it out.
void snapshots_add(struct snapshots *s, struct snapshot *snap);
void snapshots_remove(struct snapshots *s, struct snapshot *snap);
// Return the path of the hidden directory; `what` is "new" or "gone". New string.
char *snapshot_hidden(const struct snapshots *s, const char *what, const char *id);

int snapshot_write(const struct snapshot *snap, const char *dir, struct err *e); // and sync it
