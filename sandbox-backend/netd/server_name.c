// SPDX-License-Identifier: Apache-2.0
// The name of a server as a client says it.
#include "sandbox-backend/netd/server_name.h"

#include <ctype.h>
#include <string.h>

#define LABEL_MAX 63 // RFC 1035

static bool is_of_label(unsigned char c)
{
    return isalnum(c) || c == '-' || c == '_';
}

bool server_name_set(struct server_name *n, const void *bytes, size_t len)
{
    const unsigned char *in = bytes;
    size_t label = 0;
    n->text[0] = '\0';
    if (len > 0 && in[len - 1] == '.')
        len--;
    if (len == 0 || len > NET_NAME_MAX || in[len - 1] == '.')
        return false;
    for (size_t i = 0; i < len; i++) {
        bool is_dot = in[i] == '.';
        if ((is_dot && label == 0) || (!is_dot && (!is_of_label(in[i]) || label == LABEL_MAX)))
            return false;
        label = is_dot ? 0 : label + 1;
    }
    for (size_t i = 0; i < len; i++)
        n->text[i] = (char)tolower(in[i]);
    n->text[len] = '\0';
    return true;
}
