// SPDX-License-Identifier: Apache-2.0
// The templates that ship: `cubby template build NAME` builds a recipe if NAME is one.
#pragma once
#include <stdint.h>

struct recipe {
    const char *name;
    const char *alias;       // another name of it, or NULL
    const char *summary;     // for --help
    const char *packages;    // Debian packages, separated by commas; or NULL
    const char *pip;         // Python packages, separated by blanks; or NULL
    const char *npm;         // the same of npm
    const char *files;       // a directory of the guest's programs, or NULL; extras.h
    const char *script;      // a shell script, which runs as root after all of these; or NULL
    const char *environment; // "NAME=value" for all commands, or NULL
    const char *modules;     // a set of kernel modules (initramfs_modules.h), or NULL
    const char *start;       // a command whose processes every sandbox has, or NULL
    const char *ready;       // a command that succeeds when `start` has done its work, or NULL
    const char *warm;        // a command that the guest runs once before it is saved, or NULL
    int64_t memory_mb;
    int64_t disk_mb;
};

// Return the recipe of that name or alias, or NULL.
const struct recipe *recipe_find(const char *name);

// Return the recipe at `i`, or NULL after the last.
const struct recipe *recipe_at(int i);
