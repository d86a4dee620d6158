// SPDX-License-Identifier: Apache-2.0
// The common part of the archives of snapshots and of sandboxes: an image, and the build of the
// template from which it differs. A manifest has the members "tier" (the driver's name), "sum" (the
// SHA-256 of the build's saved devices), "files" (carry.h), and an object that says of what the
// image is, with the members "template", "build", "facts", "size", "policy" and "metadata".
#pragma once
#include <jansson.h>
#include <stddef.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/drivers/driver.h"
#include "sandbox-backend/template/move/carry.h"

#define IMAGE_ARCHIVE_DIR "image" // the directory of the image's files

// The rules for the files of an image.
struct image_rules {
    struct carry_rule rules[CARRY_FILES_MAX]; // `count` are set; the caller may add more
    char names[DRIVER_FILES_MAX][64];
    size_t count;
};

// Return the driver of an image in an archive. NULL with `e`: there is none of this name, or its
// images cannot be moved.
const struct driver *image_archive_driver(const char *tier, struct err *e);
void image_archive_rules(const struct driver *driver, struct image_rules *out);
// Add the files of the rules that are in `dir`, whose names begin with `below` in the archive.
int image_archive_add(struct carry *c, const char *dir, const struct carry_rule *rules,
                      size_t count, const char *below, struct err *e);

// Check the template's name, the numbers, the policy and the metadata of the object.
int image_archive_check(const json_t *what, struct err *e);

// Return the sum of the build in a template's directory, or when it was built. New string, or NULL.
char *image_archive_sum(const char *template_dir, struct err *e);
char *image_archive_build(const char *template_dir);
// Return the name that a build gets when it comes with an archive and its own name is taken. New
// string.
char *image_archive_other_name(const char *name, const char *sum);
// Return the directory of the build that the object needs, also under its other name, which then
// becomes the object's. New string; NULL: it is not here.
char *image_archive_find_build(const char *home, json_t *what, const char *sum);

// Ask the driver whether this host can go on from the image in `dir`: its QEMU or runsc, its
// processor, its template.
int image_archive_check_fit(const json_t *what, const struct driver *driver, const char *dir,
                            const char *template_dir, struct err *e);
