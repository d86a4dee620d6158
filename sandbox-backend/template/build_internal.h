// SPDX-License-Identifier: Apache-2.0
// A template build in progress: shared by build.c, which runs it, stages.c, which has the stages,
// and finish.c, which runs the last ones.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/drivers/host/disk_space.h"
#include "sandbox-backend/drivers/host/tool.h"
#include "sandbox-backend/keys/sha256.h"
#include "sandbox-backend/template/base_disk.h"
#include "sandbox-backend/template/build.h"
#include "sandbox-backend/template/build_dir.h"
#include "sandbox-backend/template/guest.h"
#include "sandbox-backend/template/progress.h"
#include "sandbox-backend/template/pump.h"
#include "sandbox-backend/template/rootfs.h"

#define BUILD_WHY_BYTES 200

struct build {
    const struct template_build *spec; // borrowed
    const struct template *finishes; // borrowed; a template that gets its part for gVisor, or NULL
    const char *templates;           // borrowed; the directory that gets the template
    struct build_dir dir;
    struct progress progress;
    struct disk_space space, temporary; // of the templates, and of temporary files
    struct rootfs_spec rootfs;
    struct base_disk_spec disk;
    struct template_setup setup; // what is done in the guests of the build
    struct tool tool;            // how the programs of the build run
    int log;
    int cache_lock; // -1: this build uses no cache
    char *cache;    // owned; directory of the cached packages
    char *qemu;     // this and the next four: owned; paths of programs
    char *netd;
    char *init;
    char *envd;
    char *fold;         // for gVisor
    char *site;         // sitecustomize.py
    char *python;       // sources of the Python kernel; NULL: a minimal template
    char *files;        // of the recipe; NULL: none
    struct buf missing; // packages that could not be installed
    char *release;      // owned; release of the guest kernel
    char *runsc;        // owned; NULL: the template has no part for gVisor, for the reason no_runsc
    struct err no_runsc;
    bool gvisor_is_open;                      // the driver
    char gvisor_digest[SHA256_HEX_CHARS + 1]; // "" until gVisor's files are made
    const char *accel;
    char no_kvm[BUILD_WHY_BYTES]; // why `accel` is "tcg"
    bool takes_saved;             // the machine is that of spec->saved
    int64_t disk_mb;
    const char *python_kernel; // of template.json: "warm", "fresh" or NULL
    json_t *image;             // owned; of template.json, or NULL
    json_t *variables;         // owned; of the environment, or NULL
    char *directory, *user;    // owned; of the environment, or NULL
    struct pump pump;          // of all guests of the build
    bool pumping;
    bool microvm_is_open;         // the driver
    struct template_guest *guest; // owned
};

// The stages, in this order. Those of gVisor are the last.
#define BUILD_STAGES        10
#define BUILD_STAGES_GVISOR 2
extern int (*const BUILD_STAGE[BUILD_STAGES])(struct build *b, struct err *e);

// Check the host and make the build directory. `b` has spec, templates, and -1 for its descriptors.
int build_open(struct build *b, struct err *e);
// Run the stages from `first` (0: all of them).
int build_run(struct build *b, int first, struct err *e);
// Free everything, and remove the build directory unless it was committed.
void build_close(struct build *b);

// Return what to show of the stages.
const struct progress_stage *build_stages_shown(enum template_source_kind kind);

// Return the path of a file of the build directory. New string.
char *build_file(const struct build *b, const char *file);

// Called a few times a second while a tool or a guest works. ctx: the build.
void build_tick(void *ctx);

// If the host's disk is full, put that before the error.
void build_name_full_disk(struct build *b, enum disk_evidence needs, struct err *e);
