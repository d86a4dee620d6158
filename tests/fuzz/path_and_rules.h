// SPDX-License-Identifier: Apache-2.0
// An input whose first line is a path, and the rest the rules that may hide it.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"

#define INPUT_MAX 4096 // a match may take the square of the length

// Split the input. `*path` is a new string, `*rules` are borrowed. Return false if it has no path,
// or is too long.
static inline bool path_and_rules(const uint8_t *data, size_t size, char **path, const char **rules,
                                  size_t *len)
{
    const char *text = (const char *)data;
    const char *stop = size ? memchr(text, '\n', size) : NULL;
    if (!stop || size > INPUT_MAX || memchr(text, '\0', (size_t)(stop - text)))
        return false;
    *path = xstrndup(text, (size_t)(stop - text));
    *rules = stop + 1;
    *len = size - (size_t)(stop + 1 - text);
    return true;
}
