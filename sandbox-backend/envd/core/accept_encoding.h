// SPDX-License-Identifier: Apache-2.0
// Choose the content coding of a response by Accept-Encoding (RFC 9110, 12.5.3). Pure functions.
#pragma once

enum coding {
    CODING_NONE, // the client accepts neither
    CODING_IDENTITY,
    CODING_GZIP,      // it accepts both and prefers gzip
    CODING_GZIP_ONLY, // it accepts gzip and refuses identity
};

// Choose the coding of a response that exists uncompressed and costs work to compress. Return
// identity unless the header (may be NULL) refuses identity, or names both codings and prefers
// gzip. Every client accepts gzip, so a client that only accepts it is no reason to compress.
enum coding accept_encoding(const char *header);
