// SPDX-License-Identifier: Apache-2.0
// The files of an OCI image, as ROOTFS_TAR.
#pragma once
#include <jansson.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/drivers/host/tool.h"
#include "sandbox-backend/template/pump.h"
#include "sandbox-backend/template/source/oci.h"

struct image_pull_spec {
    const char *reference; // template_source.reference
    const char *authfile;
    bool plain_http;
    const char *build_dir;
    const char *python; // sources of the Python kernel, put at IMAGE_PYTHON; or NULL
    const char *user;   // of commands, goes before that of the image; or NULL
    int64_t max_bytes;  // of the files
    struct tool tool;
    struct pump *pump;
};

// Where an image's template keeps the sources of the Python kernel, until the guest has shown that
// they run there.
#define IMAGE_PYTHON "usr/lib/cubby/python-kernel"

// Pull the image and make ROOTFS_TAR of it. config: what it says of commands. about: new reference,
// the member "image" of template.json. ERR_TIMEOUT: the registry stalls.
int image_pull(const struct image_pull_spec *spec, struct oci_config *config, json_t **about,
               struct err *e);

// ---- the part, for unit tests
// Return a reference in skopeo's words, as a new string; NULL with ERR_INVALID. A name without a
// transport is one of a registry. "-" and "docker-archive:-" stand for standard input; *is_stdin is
// set then, and the result names `archive`.
char *image_reference(const char *text, const char *archive, bool *is_stdin, struct err *e);
