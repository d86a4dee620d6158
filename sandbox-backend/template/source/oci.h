// SPDX-License-Identifier: Apache-2.0
// The JSON files of an OCI image layout (OCI image-spec): index, manifest and configuration. They
// come from a registry or a file of anybody, so each value is checked.
#pragma once
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"

#define OCI_DIGEST_CHARS 71 // "sha256:" and 64 digits
#define OCI_LAYERS_MAX   256
#define OCI_JSON_MAX     (4 << 20)
#define OCI_TEXT_MAX     (128 << 10) // of all variables, and of all labels

struct oci_blob {
    char digest[OCI_DIGEST_CHARS + 1];
    int64_t size;
};

struct oci_manifest {
    struct oci_blob config;
    struct oci_blob layers[OCI_LAYERS_MAX]; // the lowest first
    size_t count;
    int64_t bytes; // of all layers
};

// The members of an image configuration for commands and layers. All but `labels` and `diff_ids`
// may be NULL.
struct oci_config {
    json_t *variables; // object of strings, or NULL
    json_t *labels;    // object of strings
    char *directory;   // absolute, without ".."
    char *user;
    // SHA-256 of the unpacked layers, hexadecimal, the lowest first, with commas between them.
    char *diff_ids;
    size_t diff_count;
};

// Read the text of index.json. It must name one manifest.
int oci_index_parse(const char *text, size_t len, struct oci_blob *manifest, struct err *e);
int oci_manifest_parse(const char *text, size_t len, struct oci_manifest *out, struct err *e);
// ERR_INVALID, too, for an image of another processor or system than the guest's.
int oci_config_parse(const char *text, size_t len, struct oci_config *out, struct err *e);
void oci_config_fini(struct oci_config *c);

// Return the hexadecimal digits of a blob's digest: its file name in blobs/sha256. Borrowed.
const char *oci_blob_hex(const struct oci_blob *blob);
