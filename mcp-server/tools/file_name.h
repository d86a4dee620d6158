// SPDX-License-Identifier: Apache-2.0
// What a downloaded file is called. Pure.
#pragma once

// From the Content-Disposition header (RFC 6266; NULL when there was none), else from the URL's
// path, else "downloaded_file". New string: one component, no control characters, valid UTF-8, at
// most 200 bytes.
char *file_name_of(const char *disposition, const char *url);
