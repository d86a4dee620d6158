// SPDX-License-Identifier: Apache-2.0
// Choose the content coding of a response by Accept-Encoding.
#include "sandbox-backend/envd/core/accept_encoding.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#define UNSAID (-1)
#define MOST   1000 // a quality is counted in thousandths

// A member of the list.
struct member {
    const char *name;
    size_t len;
    int quality; // UNSAID: malformed
};

// "0", "0.5", "1.000"; UNSAID for anything else.
static int read_quality(const char *s, size_t len)
{
    if (len == 0 || len > 5 || (s[0] != '0' && s[0] != '1') || (len > 1 && s[1] != '.'))
        return UNSAID;
    int quality = (s[0] - '0') * MOST;
    int place = MOST;
    for (size_t i = 2; i < len; i++) {
        if (s[i] < '0' || s[i] > '9')
            return UNSAID;
        place /= 10;
        quality += (s[i] - '0') * place;
    }
    return quality <= MOST ? quality : UNSAID;
}

static int read_parameters(const char *s, size_t len)
{
    size_t lead = strspn(s, " \t");
    if (lead >= len)
        return MOST;
    size_t end = len;
    while (s[end - 1] == ' ' || s[end - 1] == '\t')
        end--;
    if (s[lead] != ';')
        return UNSAID;
    lead++;
    lead += strspn(s + lead, " \t");
    if (lead + 2 > end || strncasecmp(s + lead, "q=", 2) != 0)
        return UNSAID;
    return read_quality(s + lead + 2, end - lead - 2);
}

// Read the member at *at and move *at past it. False at the end of the list.
static bool next_member(const char **at, struct member *out)
{
    *at += strspn(*at, " ,\t");
    if (!**at)
        return false;
    size_t len = strcspn(*at, ",");
    out->name = *at;
    out->len = strcspn(*at, ",; \t");
    out->quality = read_parameters(*at + out->len, len - out->len);
    *at += len;
    return true;
}

static bool is_name(const struct member *m, const char *name)
{
    return m->len == strlen(name) && strncasecmp(m->name, name, m->len) == 0;
}

enum coding accept_encoding(const char *header)
{
    int identity = UNSAID;
    int gzip = UNSAID;
    int star = UNSAID;
    int members = 0;
    struct member m;
    const char *at = header ? header : "";
    while (next_member(&at, &m)) {
        members++;
        if (is_name(&m, "identity"))
            identity = m.quality;
        else if (is_name(&m, "gzip") || is_name(&m, "x-gzip"))
            gzip = m.quality;
        else if (is_name(&m, "*"))
            star = m.quality;
    }
    if (gzip == UNSAID)
        gzip = star == UNSAID ? 0 : star;
    bool refused = identity == 0 || (identity == UNSAID && star == 0);
    if (refused)
        return gzip > 0 ? CODING_GZIP_ONLY : CODING_NONE;
    if (identity == UNSAID)
        return members == 1 && star == UNSAID && gzip > 0 ? CODING_GZIP : CODING_IDENTITY;
    return gzip > identity ? CODING_GZIP : CODING_IDENTITY;
}
