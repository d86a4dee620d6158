// SPDX-License-Identifier: Apache-2.0
// Fuzz edit_file. The first byte of the input is a separator. It divides the bytes after the second
// into the old text, the new text and the file's text. The second byte says how often the file's
// text is repeated, so that a short input can lead to many replacements. The result must equal that
// of a plain replacement.
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "mcp-server/tools/files/edit.h"
#include "sandbox-backend/base/mem.h"

#define RESULT_MAX ((size_t)256 << 10)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *part(const char **at, const char *end, char mark)
{
    const char *stop = memchr(*at, mark, (size_t)(end - *at));
    char *text = xstrndup(*at, (size_t)((stop ? stop : end) - *at));
    *at = stop ? stop + 1 : end;
    return text;
}

// With neither old nor new text made to end lines in CR LF, which is so when there is no CR.
static void check(const struct edit *edit, const struct edited *d, const char *text, size_t len)
{
    struct buf want auto_buf = BUF_INIT;
    size_t old_len = strlen(edit->old_text);
    int64_t count = 0;
    for (size_t i = 0; i < len;) {
        if (len - i >= old_len && memcmp(text + i, edit->old_text, old_len) == 0) {
            buf_adds(&want, edit->new_text);
            i += old_len;
            count++;
        } else {
            buf_addc(&want, text[i++]);
        }
    }
    assert(count == d->count && (edit->all || count == 1));
    assert(want.len == d->text.len && memcmp(buf_str(&want), buf_str(&d->text), want.len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    const char *at = (const char *)data + 2;
    const char *end = (const char *)data + size;
    char *old auto_free = part(&at, end, (char)data[0]);
    char *new auto_free = part(&at, end, (char)data[0]);
    struct buf text auto_buf = BUF_INIT;
    for (int i = 0; i <= data[1] >> 1 && text.len < RESULT_MAX / 4; i++)
        buf_add(&text, at, (size_t)(end - at));
    struct err e = ERR_INIT;
    struct edited d;
    struct edit edit = {.old_text = old, .new_text = new, .all = data[1] & 1, .max = RESULT_MAX};
    if (!*old)
        return 0;
    int rc = edit_apply(&edit, buf_str(&text), text.len, &d, &e);
    assert((rc == 0) == !err_is(&e));
    assert(d.text.len <= (text.len < RESULT_MAX ? RESULT_MAX : text.len));
    if (rc == 0 && !memchr(buf_str(&text), '\r', text.len))
        check(&edit, &d, buf_str(&text), text.len);
    edited_fini(&d);
    return 0;
}
