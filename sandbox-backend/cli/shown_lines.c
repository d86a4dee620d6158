// SPDX-License-Identifier: Apache-2.0
#include "sandbox-backend/cli/shown_lines.h"

#include <string.h>

#include "sandbox-backend/base/visible.h"

#define LINE_MAX_BYTES 4096

static void show(struct buf *line, struct buf *out)
{
    const char *at = buf_str(line);
    for (const char *end = at + line->len; at < end;) {
        const char *tab = memchr(at, '\t', (size_t)(end - at));
        visible_add(out, at, (size_t)((tab ? tab : end) - at));
        if (tab)
            buf_addc(out, '\t');
        at = tab ? tab + 1 : end;
    }
    line->len = 0;
}

void shown_lines_take(struct buf *rest, const char *data, size_t len, struct buf *out)
{
    for (size_t i = 0; i < len; i++) {
        if (data[i] != '\n') {
            buf_addc(rest, data[i]);
            if (rest->len == LINE_MAX_BYTES)
                show(rest, out);
            continue;
        }
        if (rest->len && rest->data[rest->len - 1] == '\r')
            rest->len--;
        show(rest, out);
        buf_addc(out, '\n');
    }
}

void shown_lines_end(struct buf *rest, struct buf *out)
{
    show(rest, out);
}
