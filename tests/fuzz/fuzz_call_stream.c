// SPDX-License-Identifier: Apache-2.0
// Fuzz the answers of a guest as the call log reads them: envelopes in JSON and Protocol Buffers,
// lines of the Python kernel. A stream gives the same pieces, however it is cut.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/daemon/calls/call_message.h"
#include "sandbox-backend/daemon/calls/pieces.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define KEEP   48
#define LONGER 96

static struct call_logs logs = {.opts = {.output_bytes = 100}, .base = 12345677};

static void read_piece(const struct piece *p, struct buf *out)
{
    static const char *const METHODS[] = {"/process.Process/Start", "/filesystem.Filesystem/Stat"};
    struct call_log log = {.recent = {.is_recent = true}};
    const struct call_place place = {&logs, &log, "id", NULL, NULL};
    for (int i = 0; i < 2; i++) {
        struct call_data found = {0};
        json_t *line = json_object();
        if (call_read_data(p, i == 1, &found))
            buf_printf(out, "%s %lld %.*s", found.stream, (long long)found.all,
                       (int)found.bytes.len, buf_str(&found.bytes));
        call_tell_event(&place, p, i == 1, service_method(METHODS[i]), line);
        json_decref(line);
        buf_fini(&found.bytes);
    }
    json_decref(call_kernel_line(p));
    call_log_fini(&log);
}

static void on_piece(const struct piece *p, void *ctx)
{
    if (p->kept > LONGER || (p->kept > KEEP && p->data[0] != '{') || p->kept > p->len ||
        p->tail_len > PIECE_TAIL)
        abort();
    buf_printf(ctx, "[%u %zu %zu]", p->flags, p->kept, p->len);
    read_piece(p, ctx);
}

static void feed(const char *data, size_t size, size_t step, bool is_lines, struct buf *out)
{
    struct pieces p = {.is_lines = is_lines, .keep = KEEP, .longer = "{", .longer_keep = LONGER};
    for (size_t at = 0; at < size; at += step)
        pieces_feed(&p, data + at, size - at < step ? size - at : step, on_piece, out);
    pieces_fini(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int lines = 0; lines < 2; lines++) {
        struct buf whole auto_buf = BUF_INIT, parts auto_buf = BUF_INIT;
        feed((const char *)data, size, size ? size : 1, lines, &whole);
        feed((const char *)data, size, 3, lines, &parts);
        if (whole.len != parts.len || memcmp(buf_str(&whole), buf_str(&parts), whole.len) != 0)
            abort();
    }
    return 0;
}
