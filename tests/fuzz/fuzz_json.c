// SPDX-License-Identifier: Apache-2.0
// Fuzz the reader of plain JSON: jansson accepts each text that it accepts, with the same value.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_error_t at;
    json_t *plain = json_plain_parse((const char *)data, size);
    if (!plain)
        return 0;
    json_t *other =
        json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &at);
    if (!other || !json_equal(plain, other))
        abort();
    char *mine = json_to_string(plain); // the order of members is not part of being equal
    char *theirs = json_to_string(other);
    if (strcmp(mine, theirs) != 0)
        abort();
    free(mine);
    free(theirs);
    json_decref(plain);
    json_decref(other);
    return 0;
}
