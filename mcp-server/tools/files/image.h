// SPDX-License-Identifier: Apache-2.0
// The structure of an image, without its pixels. Pure.
#pragma once
#include <stdbool.h>
#include <stddef.h>

// Return whether the bytes are an image from its head to its end, with a width and a height. They
// begin as mime_type_image has found for `type`. More bytes may follow the end.
bool image_is_whole(const char *type, const char *data, size_t len);
