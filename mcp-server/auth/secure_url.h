// SPDX-License-Identifier: Apache-2.0
// URLs from which something is taken on trust: https, or http of this machine.
#pragma once
#include <stdbool.h>

// https with a host, or http to localhost, 127.0.0.1 or [::1]; no user in it, no fragment, no
// control characters.
bool secure_url_check(const char *url);
bool secure_url_is_plain(const char *url); // http
// New string: scheme, host and port ("https://x.example:8443"). After the check.
char *secure_url_origin(const char *url);
const char *secure_url_path(const char *url); // after the origin, borrowed: "" or "/..."
