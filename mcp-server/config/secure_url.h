// SPDX-License-Identifier: Apache-2.0
// URLs whose content is trusted: https, or http on this host.
#pragma once
#include <stdbool.h>

// Return whether `url` is https with a host, or http to localhost, 127.0.0.1 or [::1], without
// user, fragment and control characters.
bool secure_url_check(const char *url);
bool secure_url_is_plain(const char *url); // http
// Return scheme, host and port ("https://x.example:8443") of a checked URL; new string.
char *secure_url_origin(const char *url);
const char *secure_url_path(const char *url); // after the origin, borrowed: "" or "/..."
