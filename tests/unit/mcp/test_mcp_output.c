// SPDX-License-Identifier: Apache-2.0
// Output streams: the parts that are kept, shown and saved do not depend on the sizes of the pieces
// in which the stream arrives.
#include <string.h>
#include <unistd.h>

#include "mcp-server/tools/run/output.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "tests/lib/harness/tap.h"

static void add_in_pieces(struct output *o, const char *data, size_t len, size_t piece)
{
    while (len > 0) {
        size_t n = len < piece ? len : piece;
        output_add(o, data, n);
        data += n;
        len -= n;
    }
}

static void shown(const char *data, size_t len, size_t limit, size_t piece, const char *want)
{
    struct output o;
    output_init(&o, limit);
    add_in_pieces(&o, data, len, piece);
    json_t *text = output_text(&o, "W");
    is_str(json_string_value(text), want, "%zu bytes, limit %zu, pieces of %zu", len, limit, piece);
    is_int(output_total(&o), (int64_t)len, "all are counted");
    ok(output_is_cut(&o) == (len > limit), "cut");
    json_decref(text);
    output_fini(&o);
}

static void saved_whole(size_t len, size_t piece)
{
    struct output o;
    output_init(&o, 100);
    char *data auto_free = xmalloc(len);
    for (size_t i = 0; i < len; i++)
        data[i] = (char)(i * 31 + i / 251);
    add_in_pieces(&o, data, len, piece);
    int fd auto_close = output_take_fd(&o);
    ok(fd >= 0, "%zu bytes in pieces of %zu are in a file", len, piece);
    char *back auto_free = xmalloc(len + 1);
    ssize_t n = read(fd, back, len + 1);
    is_int(n, (int64_t)len, "its length");
    ok(n == (ssize_t)len && memcmp(back, data, len) == 0, "its bytes");
    is_int(o.saved, (int64_t)len, "counted");
    output_fini(&o);
}

int main(void)
{
    for (size_t piece = 1; piece < 12; piece++) {
        shown("", 0, 8, piece, "");
        shown("abc", 3, 8, piece, "abc");
        shown("abcdefgh", 8, 8, piece, "abcdefgh");
        shown("abcdefghi", 9, 8, piece, "abcd\n[... 1 bytes left out; W ...]\nfghi");
        shown("0123456789abcdefghijklmnop", 26, 8, piece,
              "0123\n[... 18 bytes left out; W ...]\nmnop");
        // Characters of two, three and four bytes at the cuts: none is torn.
        shown("abc\xc3\xa9-----\xc3\xa9xyz", 15, 8, piece,
              "abc\n[... 9 bytes left out; W ...]\nxyz");
        shown("ab\xe2\x82\xac-----\xe2\x82\xac"
              "xy",
              15, 8, piece, "ab\n[... 11 bytes left out; W ...]\nxy");
        shown("a\xf0\x9f\x98\x80-----\xf0\x9f\x98\x80x", 15, 8, piece,
              "a\n[... 13 bytes left out; W ...]\nx");
        shown("\xff\xfe\0ok", 5, 8, piece, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdok");
    }
    saved_whole(101, 1);
    saved_whole(101, 101);
    saved_whole(5000, 7);
    saved_whole(5000, 99);
    saved_whole(5000, 100);
    saved_whole(5000, 3000);

    struct output o;
    output_init(&o, 100);
    output_add(&o, "short", 5);
    is_int(output_take_fd(&o), -1, "what is shown whole is not saved");
    output_fini(&o);
    return tap_done();
}
