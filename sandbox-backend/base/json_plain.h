// SPDX-License-Identifier: Apache-2.0
// Reads the JSON that nearly every message consists of, four times as fast as jansson's own reader.
#pragma once
#include <jansson.h>
#include <stddef.h>

// The value that jansson's reader makes of the same bytes, or NULL when they are not so plain: not
// valid, duplicate keys, deeper than JSON_DEPTH_MAX, more values than JSON_VALUES_MAX, \u in a
// string, a key that is not ASCII, a number that is not an integer of at most 18 digits. Then that
// reader is to be asked. New reference.
json_t *json_plain_parse(const char *data, size_t len);
