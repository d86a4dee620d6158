// SPDX-License-Identifier: Apache-2.0
// An entry as envd's filesystem calls give it (filesystem.EntryInfo). Pure; anything but an object
// is an entry of which nothing is known.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

bool guest_entry_is_dir(const json_t *entry); // or a link to one
const char *guest_entry_type(
    const json_t *entry); // "file", "directory" or "other"; of a link what it leads to
int64_t guest_entry_size(const json_t *entry); // bytes; -1: it does not say
