// SPDX-License-Identifier: Apache-2.0
// Media types, for the browser that a signed URL is given to. The machine's own table may be
// missing, and is a package that most images leave out.
#include "sandbox-backend/envd/media_type.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

#define UTF8 "; charset=utf-8"

static const struct {
    const char *extension;
    const char *type;
} TYPES[] = {
    {"aac", "audio/aac"},           {"avif", "image/avif"},
    {"bmp", "image/bmp"},           {"css", "text/css" UTF8},
    {"csv", "text/csv" UTF8},       {"gif", "image/gif"},
    {"gz", "application/gzip"},     {"htm", "text/html" UTF8},
    {"html", "text/html" UTF8},     {"ico", "image/x-icon"},
    {"jpeg", "image/jpeg"},         {"jpg", "image/jpeg"},
    {"js", "text/javascript" UTF8}, {"json", "application/json"},
    {"md", "text/markdown" UTF8},   {"mjs", "text/javascript" UTF8},
    {"mp3", "audio/mpeg"},          {"mp4", "video/mp4"},
    {"ogg", "audio/ogg"},           {"pdf", "application/pdf"},
    {"png", "image/png"},           {"svg", "image/svg+xml"},
    {"tar", "application/x-tar"},   {"tsv", "text/tab-separated-values" UTF8},
    {"txt", "text/plain" UTF8},     {"wasm", "application/wasm"},
    {"wav", "audio/wav"},           {"webm", "video/webm"},
    {"webp", "image/webp"},         {"xml", "text/xml" UTF8},
    {"zip", "application/zip"},
};

const char *media_type_of(const char *name)
{
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof TYPES / sizeof *TYPES; i++)
        if (strcasecmp(dot + 1, TYPES[i].extension) == 0)
            return TYPES[i].type;
    return "application/octet-stream";
}
