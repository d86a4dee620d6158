// SPDX-License-Identifier: Apache-2.0
// Looking through a guest's console for the reason of its end.
#include "sandbox-backend/drivers/microvm/console.h"

#include <string.h>

#include "sandbox-backend/base/mem.h"

#define PANIC_SHOWN_MAX 160

char *console_printable(const char *s, size_t len, size_t max)
{
    size_t n = 0;
    char *out = xmalloc(max + 1);
    for (; n < len && n < max && s[n] != '\n' && s[n] != '\r'; n++)
        out[n] = s[n] >= ' ' && s[n] <= '~' ? s[n] : '?';
    out[n] = '\0';
    return out;
}

// The first: a kernel says it once more in the line that ends the trace.
char *console_panic(const char *text, size_t len)
{
    static const char lead[] = "Kernel panic - not syncing: ";
    const char *at = len ? memmem(text, len, lead, sizeof lead - 1) : NULL;
    if (!at)
        return NULL;
    at += sizeof lead - 1;
    return console_printable(at, (size_t)(text + len - at), PANIC_SHOWN_MAX);
}
