// SPDX-License-Identifier: Apache-2.0
// Where Cubby keeps its state, and the paths in it.
//   $CUBBY_HOME/                 default ~/.local/share/cubby, /var/lib/cubby for root
//     cubbyd.sock cubbyd.lock cubbyd.log
//     templates/<name>/          see drivers/microvm/template.h
//     sandboxes/<id>/            sandbox.json disk.qcow2 vm.net qmp.sock console.log ...
#pragma once
#include "sandbox-backend/base/err.h"

#define UNIX_PATH_MAX_BYTES 107 // sun_path less its NUL (unix(7))
#define SANDBOX_ID_LEN      20  // of [a-z0-9]

// The state directory, absolute, made when it is missing (mode 0700). New string, or NULL.
// ERR_INVALID when a socket below it would not fit in UNIX_PATH_MAX_BYTES.
char *home_open(struct err *e);

char *home_path(const char *home, const char *relative); // new string: home/relative
