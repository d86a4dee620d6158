// SPDX-License-Identifier: Apache-2.0
// The static files of the page, which are compiled in, compressed: those of static/, and xterm.js
// if it was there at the build.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/net/http_server.h"

// Answer if `path` is that of a file. False: it is not.
bool page_serve(struct http_request *req, const char *path);
bool page_has_terminal(void); // whether xterm.js is there
