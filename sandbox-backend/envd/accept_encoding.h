// SPDX-License-Identifier: Apache-2.0
// What of the codings that we have a client takes (RFC 9110, 12.5.3). Pure.
#pragma once

enum coding {
    CODING_NONE, // it takes neither
    CODING_IDENTITY,
    CODING_GZIP,      // it takes both, and likes gzip better
    CODING_GZIP_ONLY, // it refuses identity
};

// The coding for an answer that exists as it is and costs work to compress: identity, unless the
// header (may be NULL) refuses it, or names both and gives gzip the higher quality. A header that
// merely takes gzip, as every client's does, gets identity.
enum coding accept_encoding(const char *header);
