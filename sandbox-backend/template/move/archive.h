// SPDX-License-Identifier: Apache-2.0
// A file that carries a template or a snapshot to another machine: a Zstandard stream of
//   "CUBBYTP1"   8 bytes
//   length       of the manifest, 8 bytes, little-endian
//   manifest     a JSON object, which says what follows
//   data         as the manifest says
//   digest       SHA-256 of all bytes before it, 32 bytes
// The bytes of an archive may come from anybody: a reader must check all that the manifest says,
// and must not use the data before archive_read_end has succeeded.
#pragma once
#include <jansson.h>
#include <stddef.h>
#include <sys/types.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/keys/sha256.h"

#define ARCHIVE_MANIFEST_BYTES_MAX (64 * 1024 * 1024)

struct archive_writer;
// Create the file, which must not exist.
struct archive_writer *archive_create(const char *path, mode_t mode, const json_t *manifest,
                                      struct err *e);
int archive_write(struct archive_writer *w, const void *data, size_t len, struct err *e);
// Write the digest and sync the file. digest: gets it.
int archive_write_end(struct archive_writer *w, struct sha256 *digest, struct err *e);
void archive_writer_free(struct archive_writer *w); // NULL is allowed

struct archive_reader;
// Open an archive and read its manifest. manifest: gets a new object.
struct archive_reader *archive_open(const char *path, json_t **manifest, struct err *e);
// Read exactly `len` bytes. ERR_INVALID if the archive is damaged or too short.
int archive_read(struct archive_reader *r, void *data, size_t len, struct err *e);
// Check that the digest is right, and that the archive ends here. digest: gets it.
int archive_read_end(struct archive_reader *r, struct sha256 *digest, struct err *e);
void archive_reader_free(struct archive_reader *r); // NULL is allowed
