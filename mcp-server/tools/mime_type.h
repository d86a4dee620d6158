// SPDX-License-Identifier: Apache-2.0
// What kind of file it is. Pure.
#pragma once
#include <stddef.h>

// By what the first bytes say of images and archives, else by the name's extension, else
// "text/plain" for UTF-8 without NUL and "application/octet-stream" for the rest. Static.
const char *mime_type_of(const char *path, const char *data, size_t len);
// The type of an image that models are shown, by its first bytes; NULL: it is none. Static.
const char *mime_type_image(const char *data, size_t len);
