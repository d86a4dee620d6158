// SPDX-License-Identifier: Apache-2.0
// The Range header.
#include "sandbox-backend/envd/byte_range.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#define UNIT "bytes="

// Digits at *at, which moves past them; one too large for 64 bits is the largest. -1: there are
// none.
static int64_t read_number(const char **at)
{
    int64_t value = 0;
    if (**at < '0' || **at > '9')
        return -1;
    for (; **at >= '0' && **at <= '9'; (*at)++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, **at - '0', &value))
            value = INT64_MAX;
    }
    return value;
}

enum byte_range byte_range_parse(const char *header, int64_t size, int64_t *from, int64_t *len)
{
    if (!header || size <= 0 || strncasecmp(header, UNIT, strlen(UNIT)) != 0)
        return BYTE_RANGE_NONE;
    const char *at = header + strlen(UNIT);
    int64_t first = read_number(&at);
    if (*at++ != '-')
        return BYTE_RANGE_NONE;
    int64_t last = read_number(&at);
    if (*at || (first < 0 && last < 0) || (first >= 0 && last >= 0 && last < first))
        return BYTE_RANGE_NONE;
    if (first < 0) { // "-n": the last n bytes
        first = last < size ? size - last : 0;
        last = size - 1;
    }
    if (last < 0 || last > size - 1)
        last = size - 1;
    if (first > last)
        return BYTE_RANGE_OUTSIDE;
    *from = first;
    *len = last - first + 1;
    return BYTE_RANGE_PART;
}
