// SPDX-License-Identifier: Apache-2.0
// What kind of file it is, by its name.
#pragma once

// "text/html; charset=utf-8" for "a.html"; application/octet-stream for what it does not know.
const char *media_type_of(const char *name);
