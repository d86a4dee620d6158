// SPDX-License-Identifier: Apache-2.0
// The MIME type of a file: only the types that clients treat differently.
#include "mcp-server/tools/files/mime_type.h"

#include <string.h>
#include <strings.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

static const struct {
    const char *bytes;
    size_t len, offset;
    const char *type;
} MAGIC[] = {
    {"\x89PNG\r\n\x1a\n", 8, 0, "image/png"},
    {"\xff\xd8\xff", 3, 0, "image/jpeg"},
    {"GIF87a", 6, 0, "image/gif"},
    {"GIF89a", 6, 0, "image/gif"},
    {"WEBP", 4, 8, "image/webp"}, // in a RIFF
    {"%PDF-", 5, 0, "application/pdf"},
    {"PK\x03\x04", 4, 0, "application/zip"},
    {"\x1f\x8b\x08", 3, 0, "application/gzip"},
};

static const char *const EXTENSIONS[][2] = {
    {"txt", "text/plain"},
    {"log", "text/plain"},
    {"md", "text/markdown"},
    {"csv", "text/csv"},
    {"html", "text/html"},
    {"htm", "text/html"},
    {"css", "text/css"},
    {"js", "text/javascript"},
    {"mjs", "text/javascript"},
    {"json", "application/json"},
    {"ipynb", "application/x-ipynb+json"},
    {"xml", "application/xml"},
    {"svg", "image/svg+xml"},
    {"yaml", "application/yaml"},
    {"yml", "application/yaml"},
    {"py", "text/x-python"},
    {"c", "text/x-c"},
    {"h", "text/x-c"},
    {"sh", "application/x-sh"},
    {"tar", "application/x-tar"},
    {"wav", "audio/wav"},
    {"mp3", "audio/mpeg"},
    {"mp4", "video/mp4"},
    {"docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
    {"xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
    {"pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"},
};

static const char *by_extension(const char *path)
{
    const char *dot = strrchr(str_base(path), '.');
    for (size_t i = 0; dot && i < ARRAY_LEN(EXTENSIONS); i++)
        if (strcasecmp(dot + 1, EXTENSIONS[i][0]) == 0)
            return EXTENSIONS[i][1];
    return NULL;
}

static const char *by_bytes(const char *data, size_t len)
{
    for (size_t i = 0; i < ARRAY_LEN(MAGIC); i++)
        if (len >= MAGIC[i].offset + MAGIC[i].len &&
            memcmp(data + MAGIC[i].offset, MAGIC[i].bytes, MAGIC[i].len) == 0 &&
            (MAGIC[i].offset == 0 || memcmp(data, "RIFF", 4) == 0))
            return MAGIC[i].type;
    return NULL;
}

const char *mime_type_image(const char *data, size_t len)
{
    const char *type = by_bytes(data, len);
    return type && str_starts(type, "image/") ? type : NULL;
}

static bool is_zip(const char *type)
{
    return str_eq(type, "application/zip");
}

const char *mime_type_of(const char *path, const char *data, size_t len)
{
    const char *inside = by_bytes(data, len);
    const char *named = by_extension(path);
    bool is_text = utf8_is_valid(data, len) && !(len && memchr(data, 0, len));
    if (inside && !(is_zip(inside) && named)) // office documents are archives
        return inside;
    if (named && (is_text || strncmp(named, "text/", 5) != 0))
        return named;
    return is_text ? "text/plain" : "application/octet-stream";
}
