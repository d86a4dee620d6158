// SPDX-License-Identifier: Apache-2.0
// An entry as envd's filesystem calls give it.
#include "mcp-server/tools/guest_entry.h"

#include "sandbox-backend/base/str.h"

bool guest_entry_is_dir(const json_t *entry)
{
    return str_eq(json_string_value(json_object_get(entry, "type")), "FILE_TYPE_DIRECTORY");
}

const char *guest_entry_type(const json_t *entry)
{
    if (guest_entry_is_dir(entry))
        return "directory";
    const char *type = json_string_value(json_object_get(entry, "type"));
    return str_eq(type, "FILE_TYPE_FILE") ? "file" : "other";
}

// envd's 64-bit numbers are strings, as protobuf's JSON has them.
int64_t guest_entry_size(const json_t *entry)
{
    const json_t *size = json_object_get(entry, "size");
    int64_t bytes;
    if (json_is_string(size) && str_to_int(json_string_value(size), 0, INT64_MAX, &bytes))
        return bytes;
    return json_is_integer(size) ? (int64_t)json_integer_value(size) : -1;
}
