// SPDX-License-Identifier: Apache-2.0
// Fuzz the name of a downloaded file. The input is a server's Content-Disposition and a URL, one a
// line.
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "mcp-server/tools/files/file_name.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text auto_free = xstrndup((const char *)data, size);
    char *newline = strchr(text, '\n');
    if (newline)
        *newline = '\0';
    char *name auto_free = file_name_of(newline ? text : NULL, newline ? newline + 1 : text);
    assert(name[0] && strlen(name) <= 200);
    assert(!strchr(name, '/') && !str_eq(name, ".") && !str_eq(name, ".."));
    assert(utf8_is_valid(name, strlen(name)));
    for (const char *p = name; *p; p++)
        assert((unsigned char)*p >= 0x20 && *p != 0x7f);
    return 0;
}
