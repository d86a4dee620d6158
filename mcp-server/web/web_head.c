// SPDX-License-Identifier: Apache-2.0
// The headers of one HTTP request that have a meaning in MCP.
#include "mcp-server/web/web_head.h"

#include <ctype.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define MODERN_SINCE "2026-07-28"
#define NUMBER_MAX   999999999 // limit of stream and event numbers

#define NAMED(text) (text), sizeof(text) - 1

static const struct {
    const char *name;
    size_t len;
    size_t at;
} KNOWN[] = {
    {NAMED("host"), offsetof(struct web_head, host)},
    {NAMED("origin"), offsetof(struct web_head, origin)},
    {NAMED("content-type"), offsetof(struct web_head, content_type)},
    {NAMED("authorization"), offsetof(struct web_head, authorization)},
    {NAMED("mcp-protocol-version"), offsetof(struct web_head, version)},
    {NAMED("mcp-session-id"), offsetof(struct web_head, session)},
    {NAMED("mcp-method"), offsetof(struct web_head, method)},
    {NAMED("mcp-name"), offsetof(struct web_head, name)},
    {NAMED("last-event-id"), offsetof(struct web_head, last_event)},
    {NAMED("access-control-request-method"), offsetof(struct web_head, preflight)},
};

static void take(struct web_head *h, const char *value, size_t known)
{
    const char **field = (const char **)((char *)h + KNOWN[known].at);
    if (*field)
        h->repeated |= 1U << known;
    else
        *field = value;
}

void web_head_read(struct web_head *h, const struct http_header *all, size_t count)
{
    *h = (struct web_head){.all = all, .count = count};
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(all[i].name);
        if (len == 6 && strcasecmp(all[i].name, "accept") == 0)
            h->takes |= web_head_accept(all[i].value);
        for (size_t k = 0; k < ARRAY_LEN(KNOWN); k++)
            if (KNOWN[k].len == len && strcasecmp(KNOWN[k].name, all[i].name) == 0)
                take(h, all[i].value, k);
    }
}

const char *web_head_repeated(const struct web_head *h, const char *prefix)
{
    for (size_t k = 0; h->repeated >> k; k++)
        if (h->repeated & 1U << k && str_starts(KNOWN[k].name, prefix))
            return KNOWN[k].name;
    return NULL;
}

bool web_head_is_modern(const struct web_head *h)
{
    static const char SHAPE[] = "dddd-dd-dd";
    const char *v = h->version;
    if (!v || strlen(v) != sizeof SHAPE - 1)
        return false;
    for (size_t i = 0; SHAPE[i]; i++)
        if (SHAPE[i] == 'd' ? !isdigit((unsigned char)v[i]) : v[i] != SHAPE[i])
            return false;
    return strcmp(v, MODERN_SINCE) >= 0;
}

static bool word_is(const char *at, size_t len, const char *word)
{
    return len == strlen(word) && strncasecmp(at, word, len) == 0;
}

// Return the length of the word before a comma or semicolon, without white space at its end.
static size_t word_len(const char *at, const char *until)
{
    size_t len = strcspn(at, until);
    while (len > 0 && (at[len - 1] == ' ' || at[len - 1] == '\t'))
        len--;
    return len;
}

bool web_head_sends_json(const struct web_head *h)
{
    return h->content_type &&
           word_is(h->content_type, word_len(h->content_type, ";"), "application/json");
}

// Return whether ";q=0" or the like refuses it (RFC 9110, 12.4.2). `params` begins with a semicolon
// or is empty.
static bool is_refused(const char *params, size_t len)
{
    for (size_t i = 0; i + 1 < len; i += strcspn(params + i + 1, ";,") + 1) {
        const char *name = params + i + 1 + strspn(params + i + 1, " \t");
        if ((*name != 'q' && *name != 'Q') || name[1] != '=')
            continue;
        size_t zeros = strspn(name + 2, "0.");
        return zeros > 0 && (!name[2 + zeros] || strchr(" \t;,", name[2 + zeros]));
    }
    return false;
}

static unsigned bits_of(const char *type, size_t len)
{
    if (word_is(type, len, "*/*"))
        return WEB_JSON | WEB_EVENTS;
    if (word_is(type, len, "application/json") || word_is(type, len, "application/*"))
        return WEB_JSON;
    if (word_is(type, len, "text/event-stream") || word_is(type, len, "text/*"))
        return WEB_EVENTS;
    return 0;
}

unsigned web_head_accept(const char *value)
{
    unsigned wanted = 0, refused = 0;
    while (*value) {
        value += strspn(value, " \t,");
        size_t whole = strcspn(value, ",");
        size_t type = word_len(value, ",;");
        unsigned bits = bits_of(value, type);
        if (is_refused(value + type, whole - type))
            refused |= bits;
        else
            wanted |= bits;
        value += whole;
    }
    return wanted & ~refused;
}

bool web_head_event_id(const char *value, unsigned *stream, unsigned *event)
{
    const char *dot = strchr(value, '.');
    char first[16];
    int64_t number;
    if (!dot || (size_t)(dot - value) >= sizeof first)
        return false;
    memcpy(first, value, (size_t)(dot - value));
    first[dot - value] = '\0';
    if (!str_to_int(first, 0, NUMBER_MAX, &number))
        return false;
    *stream = (unsigned)number;
    if (!str_to_int(dot + 1, 0, NUMBER_MAX, &number))
        return false;
    *event = (unsigned)number;
    return true;
}
