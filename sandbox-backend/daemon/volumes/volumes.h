// SPDX-License-Identifier: Apache-2.0
// The volumes of this home: directories of files that outlive sandboxes. They lie in
// <home>/volumes/:
//
//   <id>/volume.json   name, owner and token; mode 0600
//   <id>/data/         the files (volume_files.h)
//   <id>/.put-*        uploads in progress
//   .gone-<id>/        a volume that is being removed
//
// A starting daemon removes the hidden directories and the uploads. A name belongs to an owner, who
// has one volume of that name. The token opens the files of one volume, and nothing else.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/sandbox_id.h"
#include "sandbox-backend/volume/space.h"

#define VOLUME_NAME_MAX 128
#define VOLUME_PUT      ".put-"

// The room of a volume that is in use (space.h). Requests and mounts may outlive their volume, so
// each has a reference.
struct volume_space {
    struct space space;
    TAILQ_HEAD(volume_turns, volume_turn) turns; // daemon/api/volume_turn.h
    int refs;
};

struct volume {
    TAILQ_ENTRY(volume) link;
    char id[SANDBOX_ID_MAX + 1]; // of this form, with the name of its node
    char *dir;                   // owned; <home>/volumes/<id>
    char *data;                  // owned; in dir
    char *name;                  // owned
    char *owner;                 // owned; name of the API key that made it; NULL: the unix socket
    char *token;                 // owned
    struct volume_space *space;  // a reference; NULL: not used yet
    int64_t created_ns;
};
TAILQ_HEAD(volume_list, volume);

struct volumes {
    char *dir;              // owned; <home>/volumes
    const char *node;       // borrowed; for new ids; NULL: without a name
    struct volume_list all; // the newest first
};

// Read the volumes. One that cannot be read is logged and left alone.
int volumes_open(struct volumes *v, const char *home, struct err *e);
void volumes_fini(struct volumes *v);

size_t volumes_count(const struct volumes *v, const char *owner);
struct volume *volumes_find(const struct volumes *v, const char *id); // or NULL
// Find the volume of this owner by its name (owner NULL: made on the unix socket). NULL: none.
struct volume *volumes_named(const struct volumes *v, const char *name, const char *owner);
// Open the directory of the volume's files, which is no link, nor is anything on the way from
// <home>/volumes. Return a descriptor for paths below it, or -1.
int volumes_open_files(const struct volumes *v, const struct volume *volume, struct err *e);
// Return the room of a volume, a new reference; NULL on failure.
struct volume_space *volumes_space(struct volume *volume, int64_t limit, struct err *e);
void volume_space_unref(struct volume_space *space); // NULL is allowed
// Make an empty volume and write it to the disk. ERR_INVALID: the name; ERR_CONFLICT: the owner has
// a volume of that name. NULL on failure.
struct volume *volumes_make(struct volumes *v, const char *name, const char *owner, struct err *e);
// Hide a volume and free it. Return the directory that is left to be removed, as a new string; NULL
// on failure, and the volume stays.
char *volumes_drop(struct volumes *v, struct volume *volume, struct err *e);
