// SPDX-License-Identifier: Apache-2.0
// The Range header (RFC 9110, 14.1.2 and 14.2). Pure.
#pragma once
#include <stdint.h>

enum byte_range {
    BYTE_RANGE_NONE, // the whole: there is none, it is not ours to understand, or it asks for
                     // several
    BYTE_RANGE_PART,
    BYTE_RANGE_OUTSIDE, // none of it is in the file
};

// `header` may be NULL. A server may answer several ranges with the whole, and this one does: no
// client of ours asks for them. Of a file without bytes every range is the whole.
enum byte_range byte_range_parse(const char *header, int64_t size, int64_t *from, int64_t *len);
