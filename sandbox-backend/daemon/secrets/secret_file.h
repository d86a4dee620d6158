// SPDX-License-Identifier: Apache-2.0
// The secrets file (--secrets FILE): the secrets that the daemon may give to sandboxes, an object
// of
//
//   "OPENAI_API_KEY": {"file": "/etc/cubby/openai" | "env": "OPENAI_API_KEY",
//                      "hosts": ["api.openai.com", "*.openai.com"],
//                      "env_name": "OPENAI_API_KEY",   the variable in the guest; default: the name
//                      "keys": ["ci"]}                 API keys that may use it; "*": all
//
// "env" is a variable of the daemon. A caller on the unix socket may use all secrets; an API key
// may use those that name it. The file and the values are read whenever they are needed, so a
// change counts from the next sandbox on. No value is kept here.
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "sandbox-backend/base/err.h"

// Read the whole file and check all but the values. New reference, or NULL with `e`.
json_t *secret_file_read(const char *path, struct err *e);
// The variable in the guest. Borrowed.
const char *secret_file_env_name(const char *name, const json_t *entry);
// Check the name of the variable, and the hosts if there are any.
int secret_file_check_use(const json_t *entry, struct err *e);
int secret_file_check_value(const char *value, struct err *e);   // NULL is invalid, too
bool secret_file_allows(const json_t *entry, const char *owner); // `owner` NULL: the unix socket
// Return the value, one line without its newline, as a new string to be wiped; NULL with `e`, which
// holds nothing of the value.
char *secret_file_value(const json_t *entry, struct err *e);
