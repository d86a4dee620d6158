// SPDX-License-Identifier: Apache-2.0
// Moving templates between machines. An archive has a template's disk, guest kernel and initramfs.
// An import boots the machine and saves it again, because a saved machine fits only the accelerator
// and the QEMU that made it, and under KVM the processor. An archive may have a machine that was
// saved under TCG. An import takes that over where it fits, which saves the boot and the warm-up.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/keys/sha256.h"

// Write the template to a new file, which must not exist. with_machine: also its saved machine,
// which must be one of TCG. digest: gets that of the contents. Blocking; takes about a second for
// each 300 MB.
int transfer_export(const char *home, const char *name, const char *path, bool with_machine,
                    struct sha256 *digest, struct err *e);

// A template that was read from an archive, in a directory of its own.
struct transfer {
    char *dir;            // owned; has disk.ext4, vmlinuz, initramfs.cpio, packages.txt, and with
                          // "saved" in `template` memory and vmstate
    json_t *template;     // owned; the members of its template.json that an import keeps
    struct sha256 digest; // of the contents
    int lock;             // descriptor that holds the lock on `dir`
};

// Read an archive, which may come from anybody, into a new directory below `home`. Check all of it.
// expected: the digest that it must have, or NULL.
int transfer_read(struct transfer *t, const char *home, const char *path,
                  const struct sha256 *expected, struct err *e);
// The first part of it, for tests: check what a manifest says. dir: where the files would be made.
int transfer_check_manifest(const json_t *manifest, const char *dir, struct err *e);
// Download an archive to a new file of <home>/cache, and return its path as a new string, or NULL.
char *transfer_fetch(const char *home, const char *url, struct err *e);
// Remove the directory.
void transfer_fini(struct transfer *t);
