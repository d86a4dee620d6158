// SPDX-License-Identifier: Apache-2.0
// cubby template build: recipes, and what is installed beside Debian packages.
#pragma once
#include "sandbox-backend/template/build.h"

struct template_wish {
    const char *pip, *npm; // lists
    const char *script;    // a file
    char *owned[4];        // strings that the build borrows
    int count;
};

// Understand --modules: a set of kernel modules, or a directory. -1 after a usage error.
int template_take_modules(struct template_build *spec);

// Complete a build by the recipe of its name, if it has no other source, and by the wishes. Set the
// memory and the disk.
int template_take_recipe(struct template_build *spec, struct template_wish *wish, struct err *e);
void template_wish_fini(struct template_wish *wish);
