// SPDX-License-Identifier: Apache-2.0
// A file as an HTTP representation (RFC 9110): its media type, its version (8.8), the conditions of
// a request on the version (13), and its ranges (14). Pure functions. core/accept_encoding.h
// chooses the coding.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>

// ---- media type

// Return the type for a file's name: "text/html; charset=utf-8" for "a.html",
// application/octet-stream for an unknown extension. A browser that opens a signed URL needs it.
// The table is ours: most images have no /etc/mime.types.
const char *media_type_of(const char *name);

// ---- version

#define VALIDATOR_ETAG_BYTES 80
#define VALIDATOR_DATE_BYTES 40

struct validator {
    char etag[VALIDATOR_ETAG_BYTES]; // "\"...\"", after W/ while it is weak
    char date[VALIDATOR_DATE_BYTES]; // the value of Last-Modified
    time_t modified;
    bool is_weak; // the file changed so recently that another change may not show in its times
};

// Describe the version of the representation with content coding `coding` ("" for the file's own
// bytes) at the time `now`.
void validator_init(struct validator *v, const struct stat *st, const char *coding,
                    const struct timespec *now);

struct validator_conditions { // the headers of these names; NULL: absent
    const char *if_match;
    const char *if_none_match;
    const char *if_modified_since;
    const char *if_unmodified_since;
};

// Evaluate the conditions of a GET or HEAD. Return 200 to go on, or the status to answer with: 304
// or 412.
int validator_evaluate(const struct validator *v, const struct validator_conditions *c);

// Return true if a range may be sent: If-Range is absent (NULL) or names exactly this version.
bool validator_allows_range(const struct validator *v, const char *if_range);

// ---- range

enum byte_range {
    BYTE_RANGE_NONE, // send the whole: no header, an unknown unit or form, or several ranges
    BYTE_RANGE_PART,
    BYTE_RANGE_OUTSIDE, // no byte of the range is in the file
};

// Parse a Range header (NULL: absent) for a file of `size` bytes. A server may answer several
// ranges with the whole, and envd does: no known client asks for them. Every range of an empty file
// is the whole.
enum byte_range byte_range_parse(const char *header, int64_t size, int64_t *from, int64_t *len);
