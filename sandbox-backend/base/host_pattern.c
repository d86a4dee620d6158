// SPDX-License-Identifier: Apache-2.0
// Host patterns.
#include "sandbox-backend/base/host_pattern.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#include "sandbox-backend/base/str.h"

#define NAME_MAX_BYTES  253 // RFC 1035, 2.3.4, without a dot at the end
#define LABEL_MAX_BYTES 63
#define LABEL_CHARS     "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

// Return the number of labels, or 0 for an invalid name.
static int count_labels(const char *name)
{
    int labels = 0;
    if (strlen(name) > NAME_MAX_BYTES)
        return 0;
    for (;;) {
        size_t len = strspn(name, LABEL_CHARS);
        if (len == 0 || len > LABEL_MAX_BYTES)
            return 0;
        labels++;
        name += len;
        if (!*name)
            return labels;
        if (*name++ != '.')
            return 0;
    }
}

static bool is_address(const char *text)
{
    unsigned char bytes[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, text, bytes) == 1 || inet_pton(AF_INET6, text, bytes) == 1;
}

int host_pattern_check(const char *pattern, struct err *e)
{
    bool wild = str_starts(pattern, "*.");
    int labels = count_labels(wild ? pattern + 2 : pattern);
    if (wild && labels < 2)
        return err_set(e, ERR_INVALID,
                       "\"%.80s\" matches too many hosts: give two labels or more after \"*.\"",
                       pattern);
    if (labels == 0 && !is_address(pattern))
        return err_set(e, ERR_INVALID,
                       "\"%.80s\" is not a host: give a name (api.example.com), *.example.com, or "
                       "an address, without a scheme, port or path",
                       pattern);
    return 0;
}

static size_t without_dot(const char *host)
{
    size_t len = strlen(host);
    return len && host[len - 1] == '.' ? len - 1 : len;
}

bool host_pattern_matches(const char *pattern, const char *host)
{
    size_t len = without_dot(host);
    bool wild = str_starts(pattern, "*.");
    size_t wanted = strlen(pattern) - wild; // with the dot of "*."
    if (wild)
        return len > wanted && strncasecmp(host + len - wanted, pattern + 1, wanted) == 0;
    return len == wanted && strncasecmp(host, pattern, len) == 0;
}
