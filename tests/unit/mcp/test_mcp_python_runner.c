// SPDX-License-Identifier: Apache-2.0
// The runner's record is removed from stderr however the bytes are split, and nothing else is.
#include <string.h>

#include "mcp-server/tools/python/python.h"
#include "mcp-server/tools/run/output.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "tests/lib/harness/tap.h"

static void on_rest(const char *data, size_t len, void *ctx)
{
    output_add(ctx, data, len);
}

// Each @ of `pattern` stands for the mark.
static void check(const char *pattern, size_t piece, const char *rest, bool found)
{
    struct python_record r;
    struct output err;
    python_record_init(&r, on_rest, &err);
    output_init(&err, 4096);
    struct buf input auto_buf = BUF_INIT;
    for (const char *p = pattern; *p; p++)
        *p == '@' ? buf_adds(&input, r.mark) : buf_addc(&input, *p);
    for (size_t i = 0; i < input.len; i += piece)
        python_record_feed(&r, input.data + i, input.len - i < piece ? input.len - i : piece);
    json_t *record = python_record_end(&r);
    json_t *text = output_text(&err, "");
    ok((record != NULL) == found, "%s a record, pieces of %zu", found ? "has" : "has not", piece);
    is_str(json_string_value(text), rest, "the rest");
    json_decref(record);
    json_decref(text);
    output_fini(&err);
    python_record_fini(&r);
}

int main(void)
{
    for (size_t piece = 1; piece < 80; piece += 3) {
        check("@{\"result\":\"1\"}\n", piece, "", true);
        check("before\n@{}\nafter\n", piece, "before\nafter\n", true);
        check("\x1e\x1e@{}\n", piece, "\x1e\x1e", true);
        check("nothing here \x1e at all\n", piece, "nothing here \x1e at all\n", false);
        check("@not json\n", piece, "", false);
        check("@[1]\n", piece, "", false);
        check("cut off @{\"result\"", piece, "cut off ", false);
        check("@{}\n@{\"result\":\"2\"}\n", piece, "", true);
        check("ends in \x1e", piece, "ends in \x1e", false);
    }
    ok(strlen(PYTHON_RUNNER) < 4096, "the runner stays small");
    return tap_done();
}
