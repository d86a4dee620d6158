// SPDX-License-Identifier: Apache-2.0
// The MIME type of a file. Pure.
#pragma once
#include <stddef.h>

// Return the type by the first bytes of images and archives, else by the name's extension, else
// "text/plain" for UTF-8 without NUL and "application/octet-stream" for the rest. Static.
const char *mime_type_of(const char *path, const char *data, size_t len);
// Return the type of an image that models can see, by its first bytes; NULL: none. Static.
const char *mime_type_image(const char *data, size_t len);
