// SPDX-License-Identifier: Apache-2.0
// What is to be sent: an address and headers.
#include "sandbox-backend/client/request.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"

// A line break in a value would end the header and begin one of the value's own making.
static bool can_be_sent(const char *value)
{
    for (const char *p = value; *p; p++)
        if (((unsigned char)*p < 0x20 && *p != '\t') || *p == 0x7f)
            return false;
    return true;
}

void request_header(struct request *r, const char *name, const char *value)
{
    if (!can_be_sent(value)) {
        r->bad_header = name;
        return;
    }
    assert(r->header_count < REQUEST_HEADERS_MAX);
    r->headers[r->header_count++] = (struct http_header){.name = name, .value = xstrdup(value)};
}

void request_fini(struct request *r)
{
    for (size_t i = 0; i < r->header_count; i++) {
        const void *value = r->headers[i].value;
        free((void *)(uintptr_t)value);
    }
    free(r->url);
    memset(r, 0, sizeof *r);
}
