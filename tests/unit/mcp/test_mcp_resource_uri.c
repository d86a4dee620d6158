// SPDX-License-Identifier: Apache-2.0
// URIs of files in sandboxes: made from paths, and parsed into paths.
#include <stdlib.h>
#include <string.h>

#include "mcp-server/text/resource_uri.h"
#include "mcp-server/tools/files/mime_type.h"
#include "sandbox-backend/base/mem.h"
#include "tests/lib/harness/tap.h"

static void taken(const char *uri, const char *id, const char *path)
{
    struct err e = ERR_INIT;
    struct resource_uri u;
    is_int(resource_uri_parse(uri, &u, &e), 0, "%s: %s", uri, e.msg);
    is_str(u.id, id, "the id of %s", uri);
    is_str(u.path, path, "the path of %s", uri);
    resource_uri_fini(&u);
}

static void refused(const char *uri, const char *why)
{
    struct err e = ERR_INIT;
    struct resource_uri u;
    is_int(resource_uri_parse(uri, &u, &e), -1, "%.40s is refused", uri);
    is_int(e.code, ERR_INVALID, "as invalid");
    ok(strstr(e.msg, why), "because of %s: %s", why, e.msg);
    ok(!u.id && !u.path, "nothing is left of it");
}

static void there_and_back(const char *path, const char *uri)
{
    char *made auto_free = resource_uri_of("id1", path);
    is_str(made, uri, "the URI of %s", path);
    taken(made, "id1", path);
}

static void test_long(void)
{
    char *uri auto_free = xcalloc(1, RESOURCE_URI_BYTES_MAX + 100);
    strcpy(uri, "sandbox://id1/");
    memset(uri + 14, 'a', RESOURCE_PATH_MAX - 1);
    struct err e = ERR_INIT;
    struct resource_uri u;
    is_int(resource_uri_parse(uri, &u, &e), 0, "the longest path");
    is_int(strlen(u.path), RESOURCE_PATH_MAX, "is whole");
    resource_uri_fini(&u);
    memset(uri + 14, 'a', RESOURCE_PATH_MAX);
    refused(uri, "4096 bytes");
    memset(uri + 14, 'a', RESOURCE_URI_BYTES_MAX);
    refused(uri, "16384 bytes");
}

static void kind(const char *path, const char *data, const char *want)
{
    is_str(mime_type_of(path, data, strlen(data)), want, "%s", path);
}

int main(void)
{
    taken("sandbox://id1/home/user/x.txt", "id1", "/home/user/x.txt");
    taken("sandbox://id1", "id1", "/");
    taken("sandbox://id1/", "id1", "/");
    taken("SandBox://Id-1/x", "Id-1", "/x");
    taken("sandbox://id1//home///user/", "id1", "/home/user");
    taken("sandbox://id1/a%20b%2fc", "id1", "/a b/c");
    taken("sandbox://id1/a b", "id1", "/a b");
    taken("sandbox://id1/%C3%BC\xc3\xbc", "id1", "/\xc3\xbc\xc3\xbc");
    taken("sandbox://id1/../../etc/passwd", "id1", "/etc/passwd");
    taken("sandbox://id1/a/%2E%2e/./b/..", "id1", "/");
    taken("sandbox://id1/a/..b/c./.d", "id1", "/a/..b/c./.d");
    taken("sandbox://id1/%25%3F%23", "id1", "/%?#");
    taken("sandbox://id1/%0A", "id1", "/\n");

    refused("", "begin with sandbox://");
    refused("file:///etc/passwd", "begin with sandbox://");
    refused("sandbox:id1/x", "begin with sandbox://");
    refused("sandbox:///x", "id must follow");
    refused("sandbox://id_1/x", "id must follow");
    refused("sandbox://id1:80/x", "id must follow");
    refused("sandbox://me@id1/x", "id must follow");
    refused("sandbox://id%31/x", "id must follow");
    refused("sandbox://12345678901234567890123456789012345678901234567890123456789012345/",
            "id must follow");
    refused("sandbox://id1?x", "%3F");
    refused("sandbox://id1/x?y", "%3F");
    refused("sandbox://id1/x#y", "%23");
    refused("sandbox://id1/x%00y", "NUL");
    refused("sandbox://id1/x%", "two hex digits");
    refused("sandbox://id1/x%4", "two hex digits");
    refused("sandbox://id1/x%4g", "two hex digits");
    refused("sandbox://id1/\x01", "control character");
    refused("sandbox://id1/%ff", "not UTF-8");
    refused("sandbox://id1/\xff", "not UTF-8");
    test_long();

    there_and_back("/", "sandbox://id1/");
    there_and_back("/home/user/a b#c?d%e", "sandbox://id1/home/user/a%20b%23c%3Fd%25e");
    there_and_back("/\xc3\xbc~_.-", "sandbox://id1/%C3%BC~_.-");

    kind("/a/b.json", "{}", "application/json");
    kind("/a.b/c", "text", "text/plain");
    kind("/a.txt", "\xff", "application/octet-stream");
    kind("/a.mp3", "\xff", "audio/mpeg");
    kind("/a.png", "GIF89a", "image/gif");
    kind("/a", "RIFF....WEBPVP8 ", "image/webp");
    kind("/a.docx", "PK\x03\x04",
         "application/vnd.openxmlformats-officedocument.wordprocessingml.document");
    kind("/a", "PK\x03\x04", "application/zip");
    kind("/a", "", "text/plain");
    return tap_done();
}
