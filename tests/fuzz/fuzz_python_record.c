// SPDX-License-Identifier: Apache-2.0
// Fuzz the search for the runner's record in a guest's stderr, which comes in pieces. The first
// byte is the size of the pieces; each 0x1f stands for the mark.
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "mcp-server/tools/python/python.h"
#include "mcp-server/tools/run/output.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_rest(const char *data, size_t len, void *ctx)
{
    output_add(ctx, data, len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct python_record record;
    struct output err;
    struct buf input auto_buf = BUF_INIT;
    python_record_init(&record, on_rest, &err);
    output_init(&err, 32);
    for (size_t i = 1; i < size; i++) {
        if (data[i] == 0x1f)
            buf_adds(&input, record.mark);
        else
            buf_addc(&input, (char)data[i]);
    }
    size_t piece = size && data[0] ? data[0] : 1;
    for (size_t i = 0; i < input.len; i += piece)
        python_record_feed(&record, input.data + i, input.len - i < piece ? input.len - i : piece);
    json_decref(python_record_end(&record));
    assert(output_total(&err) <= (int64_t)input.len);
    json_t *text = output_text(&err, "x");
    assert(text);
    json_decref(text);
    output_fini(&err);
    python_record_fini(&record);
    return 0;
}
