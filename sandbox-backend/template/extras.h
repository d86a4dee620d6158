// SPDX-License-Identifier: Apache-2.0
// Additions to a template of Debian packages: packages of pip and npm, files, a script.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"

struct template_extras {
    const char *pip; // requirements of pip, separated by blanks or commas; or NULL
    const char *npm; // packages of npm, the same
    // A directory of the guest's programs, which is copied below /usr/lib/cubby; or NULL. A build
    // is given its name (self_guest), the hooks its path.
    const char *files;
    const char *script; // text of a shell script, which runs as root in the new system; or NULL
    bool tolerant;      // a package that cannot be installed is reported, and left out
};

// Call `add` for each hook of mmdebstrap, a new string that it takes over, in their order. They use
// the host's settings of pip and npm (indexes, proxies, certificates), and leave nothing of these
// in the new system.
void extras_hooks(const struct template_extras *x, void (*add)(void *ctx, char *hook), void *ctx);

// Append the variables ("NAME=value", new strings) that the hooks read to `env`, at `count` of at
// most `max`. Return the new count.
int extras_environment(const struct template_extras *x, char **env, int count, int max);

// Read what could not be installed. packages_dir: ROOTFS_OUT. missing: gets "pip a, npm b".
// ERR_INVALID if there are any and `x` is not tolerant.
int extras_check(const struct template_extras *x, const char *packages_dir, struct buf *missing,
                 struct err *e);

// Return a list, separated by commas or blanks, with a newline after each word. New string.
char *extras_lines(const char *list);
