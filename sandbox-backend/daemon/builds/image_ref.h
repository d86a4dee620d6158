// SPDX-License-Identifier: Apache-2.0
// References to images in a registry, as requests name them ("python:3.12", "ghcr.io/a/b"), and the
// credentials for it. Pure.
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "sandbox-backend/base/err.h"

#define IMAGE_REF_BYTES 512 // longest reference

// Check that the reference names an image in a registry. A transport, such as "oci:" or
// "docker-archive:", is never read as one: the caller puts "docker://" before the reference.
// Return the registry as a new string, "docker.io" or HOST[:PORT] in lower case; NULL with
// ERR_INVALID.
char *image_ref_registry(const char *reference, struct err *e);
// Tell whether a comma separated list of [http://]HOST[:PORT] has the registry. *plain_http: it is
// there with "http://". NULL is an empty list.
bool image_ref_is_allowed(const char *list, const char *registry, bool *plain_http);
// Return the local template that one of E2B's own images stands for ("e2bdev/base:latest": "base"),
// or NULL. Static.
const char *image_ref_stands_for(const char *reference);
// Read E2B's fromImageRegistry. Return the contents of an authfile (containers-auth.json(5)) for
// `registry`, a new reference; NULL with ERR_INVALID or ERR_UNIMPLEMENTED. No message holds a
// credential.
json_t *image_ref_authfile(const char *registry, const json_t *credentials, struct err *e);
