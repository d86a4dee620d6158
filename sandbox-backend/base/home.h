// SPDX-License-Identifier: Apache-2.0
// The paths of Cubby's files: the state directory, and the parts of the installation.
//   $CUBBY_HOME/                 default ~/.local/share/cubby, /var/lib/cubby for root
//     cubbyd.sock cubbyd.lock cubbyd.log
//     templates/<name>/          see drivers/microvm/image/template.h
//     sandboxes/<id>/            sandbox.json disk.qcow2 vm.net qmp.sock console.log ...
#pragma once
#include "sandbox-backend/base/err.h"

#define UNIX_PATH_MAX_BYTES 107 // sun_path less its NUL (unix(7))

// Return the absolute path of the state directory, and create it (mode 0700) if it is missing. New
// string, or NULL. ERR_INVALID if a socket below it would not fit in UNIX_PATH_MAX_BYTES.
char *home_open(struct err *e);

// Check that the sockets of sandboxes fit below the home if their ids begin with a node's name.
int home_check_node(const char *home, const char *node, struct err *e);

char *home_path(const char *home, const char *relative); // new string: home/relative

// Return the path of another program of Cubby's ("cubbyd", "cubby-netd", "runsc"): beside the
// running one, or in ../libexec/cubby of an installation, where the programs are that users do not
// start. New string, or NULL with a message that says how to build or install it.
char *self_program(const char *name, struct err *e);

// Return the path of a guest part ("envd", "init"): in ../guest of a build tree, or in
// ../lib/cubby/guest of an installation. New string, or NULL.
char *self_guest(const char *name, struct err *e);
