// SPDX-License-Identifier: Apache-2.0
// The secrets that this daemon may give to sandboxes (--secrets FILE): an object of
//
//   "OPENAI_API_KEY": {"file": "/etc/cubby/openai" | "env": "OPENAI_API_KEY",
//                      "hosts": ["api.openai.com", "*.openai.com"],
//                      "env_name": "OPENAI_API_KEY",   the variable in the guest; default: the name
//                      "keys": ["ci"]}                 API keys that may use it; "*": all
//
// "env" is a variable of the daemon. Who asks over the unix socket may use all of them, an API key
// those that name it. The file is read each time that something is wanted of it, and values with
// it, so what changes there counts from the next sandbox on. No value is kept here.
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "sandbox-backend/base/err.h"

// The whole file, checked but for the values: an object as above. New reference, or NULL.
json_t *secret_file_read(const char *path, struct err *e);
// Of one entry of it. Borrowed.
const char *secret_file_env_name(const char *name, const json_t *entry);
bool secret_file_allows(const json_t *entry, const char *owner); // NULL: the unix socket's
// One line, without the newline that may end its file. New string, to be wiped; NULL with `e`,
// which holds nothing of it.
char *secret_file_value(const json_t *entry, struct err *e);
