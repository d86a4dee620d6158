// SPDX-License-Identifier: Apache-2.0
// The form of ids.
#include "sandbox-backend/base/sandbox_id.h"

#include <stdint.h>
#include <string.h>

#include "sandbox-backend/base/str.h"

bool node_name_is_valid(const char *name)
{
    size_t len = strlen(name);
    return len >= 1 && len <= NODE_NAME_MAX && strspn(name, SANDBOX_ID_CHARS) == len;
}

// Bytes beyond the last whole multiple of the alphabet's size are drawn again, so that all letters
// are equally likely.
static void add_random(char *out)
{
    size_t letters = sizeof SANDBOX_ID_CHARS - 1;
    for (size_t i = 0; i < SANDBOX_ID_LEN;) {
        uint8_t byte;
        random_bytes(&byte, 1);
        if (byte < 256 / letters * letters)
            out[i++] = SANDBOX_ID_CHARS[byte % letters];
    }
    out[SANDBOX_ID_LEN] = '\0';
}

void sandbox_id_make(char out[SANDBOX_ID_MAX + 1], const char *node)
{
    size_t len = node ? strlen(node) : 0;
    if (len)
        memcpy(out, node, len);
    add_random(out + len);
}

size_t sandbox_id_len(const char *text)
{
    size_t len = strspn(text, SANDBOX_ID_CHARS);
    bool ends = text[len] == '\0' || text[len] == '-';
    return ends && len >= SANDBOX_ID_LEN && len <= SANDBOX_ID_MAX ? len : 0;
}

bool sandbox_id_is_valid(const char *text)
{
    size_t len = sandbox_id_len(text);
    return len && text[len] == '\0';
}

size_t sandbox_id_node_len(const char *id)
{
    size_t len = sandbox_id_len(id);
    return len ? len - SANDBOX_ID_LEN : 0;
}

bool sandbox_id_is_foreign(const char *id, const char *node)
{
    size_t len = sandbox_id_node_len(id);
    bool same = node && strlen(node) == len && strncmp(id, node, len) == 0;
    return len > 0 && !same;
}
