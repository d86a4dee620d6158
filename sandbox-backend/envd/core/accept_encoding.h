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
// identity unless the header (may be NULL) refuses identity, names both codings and prefers gzip,
// or is gzip alone, which E2B's SDKs send for a compressed download. HTTP libraries send "gzip,
// deflate" of themselves, so that is no reason to compress.
enum coding accept_encoding(const char *header);
