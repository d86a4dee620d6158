// SPDX-License-Identifier: Apache-2.0
// The name of a downloaded file. Pure.
#pragma once

// Return the name from the Content-Disposition header (RFC 6266; NULL: none), or from the URL's
// path, or "downloaded_file". New string: one component, no control characters, valid UTF-8, at
// most 200 bytes.
char *file_name_of(const char *disposition, const char *url);
