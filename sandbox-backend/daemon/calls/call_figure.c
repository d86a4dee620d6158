// SPDX-License-Identifier: Apache-2.0
// Figures of the Python kernel in the call log.
#include "sandbox-backend/daemon/calls/call_figure.h"

#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

static const struct picture {
    const char *member, *type;
    const char *begin; // the first bytes of its format
    size_t begin_len;
} PICTURES[] = {
    {"png", "image/png", "\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16},
    {"jpeg", "image/jpeg", "\xff\xd8\xff", 3},
};

// Write the picture as base64 into the line, and return NULL; or return why it is not kept.
static const char *keep(const struct call_place *p, const struct picture *form, const json_t *value,
                        bool is_cut, json_t *line)
{
    struct buf bytes auto_buf = BUF_INIT, text auto_buf = BUF_INIT;
    const char *base64 = json_string_value(value);
    size_t len = json_string_length(value);
    while (len > 0 && base64[len - 1] == '\n')
        len--;
    if (is_cut || len > CALL_FIGURE_CHARS)
        return "too large";
    if (!base64_decode(&bytes, base64, len) || bytes.len < form->begin_len ||
        memcmp(bytes.data, form->begin, form->begin_len) != 0)
        return "not a picture";
    base64_encode(&text, bytes.data, bytes.len);
    if (p->log->figures + (int64_t)text.len > p->logs->opts.file_bytes / 4)
        return "no room";
    p->log->figures += (int64_t)text.len;
    json_object_set_new(line, "bytes", json_integer((json_int_t)bytes.len));
    json_object_set_new(line, "data", json_stringn(text.data, text.len));
    return NULL;
}

bool call_figure_tell(const struct call_place *p, int64_t n, const json_t *result, bool is_cut)
{
    for (size_t i = 0; i < ARRAY_LEN(PICTURES); i++) {
        const json_t *value = json_object_get(result, PICTURES[i].member);
        if (!json_is_string(value))
            continue;
        json_t *line = json_pack("{s:s, s:I, s:s}", "kind", "figure", "of", (json_int_t)n, "type",
                                 PICTURES[i].type);
        const char *why = keep(p, &PICTURES[i], value, is_cut, line);
        if (why)
            json_object_set_new(line, "why", json_string(why));
        call_log_add(p, line);
        return true;
    }
    return false;
}
