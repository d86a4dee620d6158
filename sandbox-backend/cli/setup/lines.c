// SPDX-License-Identifier: Apache-2.0
// cubby setup: what the editors of TOML and YAML share.
#include "sandbox-backend/cli/setup/lines.h"

#include <string.h>

#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/setup/setup.h"

int lines__fail(const char *text, const char *at, const char *what, struct err *e)
{
    size_t line = 1;
    for (const char *c = text; c < at; c++)
        line += *c == '\n';
    return err_set(e, ERR_INVALID, "line %zu: %s", line, what);
}

// Tell whether a character ends a line for some readers of YAML, or is a control character or a
// byte order mark: U+0080 to U+009F, U+2028, U+2029 and U+FEFF.
static bool is_odd(const char *c)
{
    const unsigned char *u = (const unsigned char *)c;
    return (u[0] == 0xc2 && u[1] < 0xa0) || str_starts(c, "\xe2\x80\xa8") ||
           str_starts(c, "\xe2\x80\xa9") || str_starts(c, TEXT_BOM);
}

int lines__check(const char *text, struct err *e)
{
    size_t len = strlen(text);
    if (str_starts(text, TEXT_BOM))
        return err_set(e, ERR_INVALID, TEXT_BOM_SAID);
    size_t valid = utf8_valid_prefix(text, len);
    if (valid < len)
        return lines__fail(text, text + valid, "it is not UTF-8", e);
    for (const char *c = text; *c; c++) {
        bool is_end = c[0] == '\n' || (c[0] == '\r' && c[1] == '\n');
        bool is_control = (unsigned char)*c < ' ' || *c == 0x7f;
        if ((is_control && !is_end && *c != '\t') || is_odd(c))
            return lines__fail(text, c, "it has a control character", e);
    }
    return 0;
}

void lines__end(struct buf *out)
{
    if (out->len && out->data[out->len - 1] != '\n')
        buf_addc(out, '\n');
}
