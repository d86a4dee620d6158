// SPDX-License-Identifier: Apache-2.0
// A file as a representation: its media type, its version, its ranges.
#include "sandbox-backend/envd/files/representation.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "sandbox-backend/base/mem.h"

#define SETTLED_S 2 // file times step in milliseconds, Last-Modified in seconds
#define UTF8      "; charset=utf-8"
#define UNIT      "bytes="

// ---- media types

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
    for (size_t i = 0; dot && i < ARRAY_LEN(TYPES); i++)
        if (strcasecmp(dot + 1, TYPES[i].extension) == 0)
            return TYPES[i].type;
    return "application/octet-stream";
}

// ---- versions

void validator_init(struct validator *v, const struct stat *st, const char *coding,
                    const struct timespec *now)
{
    struct tm tm = {0};
    v->modified = st->st_mtim.tv_sec;
    v->is_weak = v->modified > now->tv_sec - SETTLED_S;
    snprintf(v->etag, sizeof v->etag, "%s\"%" PRIx64 "-%" PRIx64 "%08lx-%" PRIx64 "%s%s\"",
             v->is_weak ? "W/" : "", (uint64_t)st->st_ino, (uint64_t)v->modified,
             (unsigned long)st->st_mtim.tv_nsec, (uint64_t)st->st_size, *coding ? "-" : "", coding);
    if (gmtime_r(&v->modified, &tm))
        strftime(v->date, sizeof v->date, "%a, %d %b %Y %H:%M:%S GMT", &tm);
    else
        v->date[0] = '\0';
}

// ---- entity tags

// Read the tag at *at, with its quotes, and move *at past it. False if there is no tag.
static bool next_tag(const char **at, bool *is_weak, const char **opaque, size_t *len)
{
    *is_weak = strncmp(*at, "W/", 2) == 0;
    const char *quote = *at + (*is_weak ? 2 : 0);
    const char *end = *quote == '"' ? strchr(quote + 1, '"') : NULL;
    if (!end)
        return false;
    *opaque = quote;
    *len = (size_t)(end + 1 - quote);
    *at = end + 1;
    return true;
}

// In a strong comparison, a weak tag equals no tag (8.8.3.2).
static bool is_listed(const struct validator *v, const char *list, bool strongly)
{
    const char *mine = v->etag + (v->is_weak ? 2 : 0);
    bool is_weak;
    const char *opaque;
    size_t len;
    if (strcmp(list, "*") == 0)
        return true;
    for (;;) {
        list += strspn(list, " \t,");
        if (!next_tag(&list, &is_weak, &opaque, &len))
            return false;
        if (len == strlen(mine) && memcmp(opaque, mine, len) == 0 &&
            !(strongly && (is_weak || v->is_weak)))
            return true;
    }
}

// ---- dates

// Parse a date in any of the three forms (5.6.7). False for anything else, which is ignored.
static bool parse_date(const char *s, time_t *out)
{
    static const char *const FORMS[] = {"%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT",
                                        "%a %b %e %H:%M:%S %Y"};
    for (size_t i = 0; i < ARRAY_LEN(FORMS); i++) {
        struct tm tm = {0};
        const char *end = strptime(s, FORMS[i], &tm);
        if (end && *end == '\0') {
            *out = timegm(&tm);
            return true;
        }
    }
    return false;
}

int validator_evaluate(const struct validator *v, const struct validator_conditions *c)
{
    time_t when;
    if (c->if_match) {
        if (!is_listed(v, c->if_match, true))
            return 412;
    } else if (c->if_unmodified_since && parse_date(c->if_unmodified_since, &when) &&
               v->modified > when) {
        return 412;
    }
    if (c->if_none_match)
        return is_listed(v, c->if_none_match, false) ? 304 : 200;
    if (c->if_modified_since && parse_date(c->if_modified_since, &when) && v->modified <= when)
        return 304;
    return 200;
}

bool validator_allows_range(const struct validator *v, const char *if_range)
{
    if (!if_range)
        return true;
    time_t when;
    if (*if_range == '"' || *if_range == 'W')
        return is_listed(v, if_range, true);
    return parse_date(if_range, &when) && when == v->modified && !v->is_weak;
}

// ---- ranges

// Read digits at *at and move *at past them. A number too large for 64 bits becomes the largest.
// -1: there are no digits.
static int64_t read_number(const char **at)
{
    int64_t value = 0;
    if (**at < '0' || **at > '9')
        return -1;
    for (; **at >= '0' && **at <= '9'; (*at)++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, **at - '0', &value))
            value = INT64_MAX;
    }
    return value;
}

enum byte_range byte_range_parse(const char *header, int64_t size, int64_t *from, int64_t *len)
{
    if (!header || size <= 0 || strncasecmp(header, UNIT, strlen(UNIT)) != 0)
        return BYTE_RANGE_NONE;
    const char *at = header + strlen(UNIT);
    int64_t first = read_number(&at);
    if (*at++ != '-')
        return BYTE_RANGE_NONE;
    int64_t last = read_number(&at);
    if (*at || (first < 0 && last < 0) || (first >= 0 && last >= 0 && last < first))
        return BYTE_RANGE_NONE;
    if (first < 0) { // "-n": the last n bytes
        first = last < size ? size - last : 0;
        last = size - 1;
    }
    if (last < 0 || last > size - 1)
        last = size - 1;
    if (first > last)
        return BYTE_RANGE_OUTSIDE;
    *from = first;
    *len = last - first + 1;
    return BYTE_RANGE_PART;
}
