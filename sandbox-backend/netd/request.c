// SPDX-License-Identifier: Apache-2.0
// The CONNECT line of vm.net.
#include "sandbox-backend/netd/request.h"

#include <string.h>

static const char verb[] = "CONNECT ";
#define VERB_BYTES (sizeof(verb) - 1)

// Digits up to the newline; 0 for what is no port.
static uint32_t parse_port(const char *s, size_t len)
{
    uint32_t port = 0;
    if (len == 0 || len > 5 || s[0] == '0')
        return 0;
    for (size_t i = 0; i < len; i++) {
        if (s[i] < '0' || s[i] > '9')
            return 0;
        port = port * 10 + (uint32_t)(s[i] - '0');
    }
    return port <= UINT16_MAX ? port : 0;
}

enum request_state request_parse(const char *data, size_t len, uint16_t *port, size_t *used)
{
    size_t head = len < VERB_BYTES ? len : VERB_BYTES;
    if (memcmp(data, verb, head) != 0)
        return REQUEST_BAD;
    const char *newline = memchr(data, '\n', len);
    if (!newline)
        return len >= REQUEST_LINE_MAX_BYTES ? REQUEST_BAD : REQUEST_MORE;
    size_t line = (size_t)(newline - data);
    uint32_t value = line > VERB_BYTES ? parse_port(data + VERB_BYTES, line - VERB_BYTES) : 0;
    if (value == 0)
        return REQUEST_BAD;
    *port = (uint16_t)value;
    *used = line + 1;
    return REQUEST_DONE;
}
