// SPDX-License-Identifier: Apache-2.0
// Fuzz resource URIs from a client. An accepted URI is a path that cannot leave the sandbox's root,
// and the URI made from that path means the same.
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "mcp-server/text/resource_uri.h"
#include "mcp-server/tools/files/mime_type.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_path(const char *path)
{
    size_t len = strlen(path);
    assert(path[0] == '/' && len <= RESOURCE_PATH_MAX + 1 && utf8_is_valid(path, len));
    assert(len == 1 || path[len - 1] != '/');
    assert(!strstr(path, "//") && !strstr(path, "/./") && !strstr(path, "/../"));
    assert(!str_ends(path, "/.") && !str_ends(path, "/.."));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *uri auto_free = xstrndup((const char *)data, size);
    struct err e = ERR_INIT;
    struct resource_uri one;
    if (resource_uri_parse(uri, &one, &e) < 0) {
        assert(err_is(&e) && !one.id && !one.path);
        assert(mime_type_of(uri, (const char *)data, size)[0]);
        return 0;
    }
    check_path(one.path);
    assert(one.id[0] && !strpbrk(one.id, "/%?#:@"));
    char *again auto_free = resource_uri_of(one.id, one.path);
    struct resource_uri two;
    if (resource_uri_parse(again, &two, &e) == 0) { // a path of 4 KiB may be too long when escaped
        assert(str_eq(one.id, two.id) && str_eq(one.path, two.path));
        resource_uri_fini(&two);
    }
    resource_uri_fini(&one);
    return 0;
}
