// SPDX-License-Identifier: Apache-2.0
// Versions of files, and conditions on them.
#include "sandbox-backend/envd/validator.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define SETTLED_S 2 // file times step in milliseconds, Last-Modified in seconds

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

// What is between the quotes of a tag at *at, which moves past it. False when it is none.
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

// Strongly compared, weak tags are equal to none (8.8.3.2).
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

// In any of the three forms (5.6.7). False for anything else, which is to be ignored.
static bool parse_date(const char *s, time_t *out)
{
    static const char *const FORMS[] = {"%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT",
                                        "%a %b %e %H:%M:%S %Y"};
    for (size_t i = 0; i < sizeof FORMS / sizeof *FORMS; i++) {
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
