// SPDX-License-Identifier: Apache-2.0
// read_file: lines of a text, a whole image as an image, and the type of any other file.
//
// Steps: 1. resolve a relative path; 2. read a file of at most READ_BYTES whole, and cut it here;
// 3. read the wanted part of a larger file by a script in the sandbox, which prints a line of
// facts, then the bytes. Text is cut at max_bytes and PAGE_LINES, and the result says how to
// continue. Lines of files above COUNTED_BYTES are not counted.
#include <stdio.h>
#include <string.h>

#include "mcp-server/text/text.h"
#include "mcp-server/tools/files/guest_file.h"
#include "mcp-server/tools/files/image.h"
#include "mcp-server/tools/files/mime_type.h"
#include "mcp-server/tools/run/guest_script.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/visible.h"

#define PAGE_BYTES    ((int64_t)16 << 10) // without max_bytes
#define PAGE_LINES    2000
#define IMAGE_BYTES   ((size_t)5 << 20)
#define READ_BYTES    IMAGE_BYTES
#define FACTS_BYTES   ((size_t)256)
#define TIMEOUT_MS    50000
#define COUNTED_BYTES "67108864"

#define CHARACTER_BYTES ((size_t)4) // at most, in UTF-8

// ---- the lines that are asked for

static int64_t int_arg(const struct tool_call *c, const char *name, int64_t fallback)
{
    const json_t *value = json_object_get(c->args, name);
    return value ? (int64_t)json_integer_value(value) : fallback;
}

static int64_t first_line(const struct tool_call *c)
{
    return int_arg(c, "start_line", 1);
}

static int64_t wanted_lines(const struct tool_call *c)
{
    int64_t wanted = int_arg(c, "end_line", INT64_MAX) - first_line(c) + 1;
    return wanted < PAGE_LINES ? wanted : PAGE_LINES;
}

static size_t page_bytes(const struct tool_call *c)
{
    return (size_t)int_arg(c, "max_bytes", PAGE_BYTES);
}

// ---- an image, or another file that is not text

static void finish_image(struct tool_call *c, json_t *o, const char *data, size_t len)
{
    const char *kind = text_string(o, "mime_type");
    bool is_shown = len > 0 && tool_call_images(c) == IMAGES_INLINE;
    json_object_set_new(o, "shown", json_boolean(is_shown));
    if (is_shown) {
        struct buf base64 auto_buf = BUF_INIT;
        base64_encode(&base64, data, len);
        tool_call_add_block(c, json_pack("{s:s, s:s, s:s}", "type", "image", "data",
                                         buf_str(&base64), "mimeType", kind));
    }
    tool_call_finish(c, o);
}

// Text has no NUL. Invalid UTF-8 is replaced when it is shown.
static bool is_binary(const char *data, size_t len)
{
    return memchr(data, '\0', len) != NULL;
}

static void finish_binary(struct tool_call *c, json_t *o, const char *data, size_t len)
{
    char hex[2 * 16 + 1];
    hex_encode(hex, data, len < 16 ? len : 16);
    json_object_set_new(o, "mime_type", json_string("application/octet-stream"));
    json_object_set_new(o, "first_bytes", json_string(hex));
    tool_call_finish(c, o);
}

// ---- a text

static int64_t count_lines(const char *data, size_t len)
{
    int64_t lines = 0;
    for (const char *p = data; (p = memchr(p, '\n', len - (size_t)(p - data))); p++)
        lines++;
    return lines + (len > 0 && data[len - 1] != '\n');
}

// Return the number of bytes to show: whole lines, or as much of a single line as fits, but at
// least one character, because the next page would otherwise begin where this one does.
static size_t page_end(const char *data, size_t len, size_t most, bool *cut_line)
{
    *cut_line = false;
    if (len <= most)
        return len;
    const char *end = memrchr(data, '\n', most);
    *cut_line = !end;
    if (end)
        return (size_t)(end - data) + 1;
    size_t fits = utf8_valid_prefix(data, most);
    for (size_t more = most; fits == 0; more++)
        fits = more < len && more < most + CHARACTER_BYTES ? utf8_valid_prefix(data, more) : most;
    return fits;
}

static void finish_text(struct tool_call *c, json_t *o, const char *data, size_t len)
{
    bool cut_line;
    int64_t first = first_line(c);
    int64_t total = text_int(o, "total_lines");
    size_t shown = page_end(data, len, page_bytes(c), &cut_line);
    int64_t last = first + count_lines(data, shown) - 1;
    bool is_cut =
        shown < len || (wanted_lines(c) == PAGE_LINES && last - first + 1 == PAGE_LINES &&
                        last < int_arg(c, "end_line", INT64_MAX) && (total < 0 || last < total));
    if (total >= 0 && first > total && first > 1) {
        json_decref(o);
        tool_call_fail(c, "out_of_range", "start_line is %lld, but the file has %lld lines",
                       (long long)first, (long long)total);
        return;
    }
    json_object_set_new(o, "mime_type", json_string("text/plain"));
    json_object_set_new(o, "content", json_lossy_string(data, shown));
    json_object_set_new(o, "start_line", json_integer(first));
    json_object_set_new(o, "end_line", json_integer(last));
    json_object_set_new(o, "truncated", json_boolean(is_cut));
    if (is_cut)
        json_object_set_new(o, "next_line", json_integer(last + 1));
    if (cut_line)
        json_object_set_new(o, "cut_line", json_true());
    tool_call_finish(c, o);
}

struct facts {
    const char *kind; // "text", or an image's type
    int64_t size;
    int64_t lines; // -1: not counted
};

// Takes `path`, the absolute path of the file.
static void finish(struct tool_call *c, const struct facts *f, json_t *path, const char *data,
                   size_t len)
{
    json_t *o = json_object();
    json_object_set_new(o, "path", path);
    json_object_set_new(o, "size", json_integer(f->size));
    // Model APIs refuse a conversation with a broken image. Without bytes no image is shown.
    bool is_broken = !str_eq(f->kind, "text") && len > 0 && !image_is_whole(f->kind, data, len);
    if (!str_eq(f->kind, "text") && !is_broken) {
        json_object_set_new(o, "mime_type", json_string(f->kind));
        finish_image(c, o, data, len);
    } else if (is_broken || is_binary(data, len)) {
        finish_binary(c, o, data, len);
    } else {
        if (f->lines >= 0)
            json_object_set_new(o, "total_lines", json_integer(f->lines));
        finish_text(c, o, data, len);
    }
}

// ---- 3. a large file, by a script

// $1 path, $2 first line, $3 number of lines, $4 most bytes, $5 most bytes of an image. Prints
// "<kind> <size> <lines or -1> <path>\0", and for an image or a text its bytes.
static const char SCRIPT[] = GUEST_SCRIPT_PATH
    "exec <\"$p\" || exit 1\n"
    "size=$(stat -L -c %s -- \"$p\") || exit 1\n"
    "kind=text\n"
    "case $(head -c 12 -- \"$p\" | od -A n -t x1 | tr -d ' \\n') in\n"
    "89504e470d0a1a0a*) kind=image/png;;\n"
    "ffd8ff*) kind=image/jpeg;;\n"
    "474946383761*|474946383961*) kind=image/gif;;\n"
    "52494646????????57454250) kind=image/webp;;\n"
    "esac\n"
    "if [ $kind != text ]; then\n"
    "    printf '%s %s -1 %s\\0' $kind $size \"$p\"\n"
    "    if [ $size -le $5 ]; then exec cat; fi\n"
    "    exit 0\n"
    "fi\n"
    "lines=-1\n"
    "if [ $size -le " COUNTED_BYTES " ]; then\n"
    "    lines=$(wc -l <\"$p\")\n"
    "    if [ $size -gt 0 ] && [ \"$(tail -c 1 -- \"$p\" | od -A n -t x1)\" != ' 0a' ]; then\n"
    "        lines=$((lines + 1))\n"
    "    fi\n"
    "fi\n"
    "printf 'text %s %s %s\\0' $size $lines \"$p\"\n"
    "tail -n +\"$2\" | head -n \"$3\" | head -c \"$4\"\n";

static void finish_script(struct tool_call *c, const struct buf *out)
{
    char kind[32];
    long long size;
    long long lines;
    int at = 0;
    const char *end = memchr(buf_str(out), '\0', out->len);
    if (!end || sscanf(out->data, "%31s %lld %lld %n", kind, &size, &lines, &at) != 3 || !at) {
        tool_call_fail(c, "failed", "could not read the file: the sandbox sent no size or type");
        return;
    }
    size_t skip = (size_t)(end - out->data) + 1;
    const struct facts f = {.kind = kind, .size = size, .lines = lines};
    finish(c, &f, json_lossy_string(out->data + at, skip - 1 - (size_t)at), out->data + skip,
           out->len - skip);
}

static void on_script(struct tool_call *c, struct guest_result *r, const struct err *e, void *ctx)
{
    (void)ctx;
    if (e || r->timed_out || r->exit_code != 0)
        guest_script_fail(c, "read the file", r, e);
    else
        finish_script(c, &r->out);
}

static void read_by_script(struct tool_call *c)
{
    char *first auto_free = str_printf("%lld", (long long)first_line(c));
    char *count auto_free = str_printf("%lld", (long long)wanted_lines(c));
    char *most auto_free = str_printf("%zu", page_bytes(c) + CHARACTER_BYTES);
    char *image auto_free = str_printf("%zu", IMAGE_BYTES);
    const char *const args[] = {tool_call_string(c, "path"), first, count, most, image, NULL};
    guest_script_run(c,
                     &(struct guest_script){
                         .text = SCRIPT,
                         .args = args,
                         .user = tool_call_string(c, "user"),
                         .timeout_ms = TIMEOUT_MS,
                         .out_max = IMAGE_BYTES + FACTS_BYTES + 4096,
                     },
                     on_script, NULL);
}

// Return the start of the line behind `lines` more lines.
static size_t skip_lines(const char *data, size_t len, int64_t lines)
{
    const char *p = data;
    while (lines-- > 0 && (p = memchr(p, '\n', len - (size_t)(p - data))))
        p++;
    return p ? (size_t)(p - data) : len;
}

static void finish_whole(struct tool_call *c, const char *data, size_t len)
{
    const char *path = tool_call_string(c, "path");
    const char *image = mime_type_image(data, len);
    struct facts f = {.kind = image ? image : "text", .size = (int64_t)len, .lines = -1};
    if (str_eq(f.kind, "text")) {
        f.lines = count_lines(data, len);
        size_t from = skip_lines(data, len, first_line(c) - 1);
        data += from;
        len = skip_lines(data, len - from, wanted_lines(c));
        if (len > page_bytes(c) + CHARACTER_BYTES)
            len = page_bytes(c) + CHARACTER_BYTES;
    }
    finish(c, &f, json_string(path), data, len);
}

static void on_read(const char *data, size_t len, const struct err *e, void *ctx)
{
    struct tool_call *c = ctx;
    c->op = NULL;
    if (c->cancelled)
        tool_call_fail(c, "cancelled", "the call was cancelled");
    else if (e && e->code == ERR_TOO_LARGE)
        read_by_script(c);
    else if (e)
        guest_file_fail(c, "read the file", e);
    else
        finish_whole(c, data, len);
}

static void read_whole(struct tool_call *c)
{
    c->op = client_read(c->context->client, c->id, tool_call_string(c, "path"), READ_BYTES,
                        tool_call_string(c, "user"), on_read, c);
}

// ---- 1. its path

static void start(struct tool_call *c)
{
    if (int_arg(c, "end_line", INT64_MAX) < first_line(c))
        tool_call_fail(c, "invalid_argument",
                       "argument 'end_line' must not be less than start_line, which is %lld",
                       (long long)first_line(c));
    else if (tool_call_client(c, TIMEOUT_MS / 1000))
        guest_file_find(c, "read the file", read_whole);
}

// ---- its words

static void add_range(struct buf *out, const json_t *o)
{
    long long first = text_int(o, "start_line");
    long long last = text_int(o, "end_line");
    if (last < first)
        buf_adds(out, "no lines");
    else
        buf_printf(out, "lines %lld-%lld", first, last);
    if (json_object_get(o, "total_lines"))
        buf_printf(out, " of %lld", text_int(o, "total_lines"));
}

static const char *hint_of(const json_t *o)
{
    if (json_is_true(json_object_get(o, "cut_line")))
        return "this line is too long to show; use run_command with cut to see parts of it";
    if (!json_is_false(json_object_get(o, "shown")))
        return NULL;
    return (size_t)text_int(o, "size") > IMAGE_BYTES ? "too large to show" : "not shown";
}

static char *text_of(const json_t *o)
{
    struct buf out = BUF_INIT;
    char *path auto_free = visible_text(text_string(o, "path"));
    buf_printf(&out, "[%s: ", path);
    if (!json_object_get(o, "content")) {
        const char *bytes = text_string(o, "first_bytes");
        const char *hint = hint_of(o);
        buf_printf(&out, "%s, %lld bytes", text_string(o, "mime_type"), text_int(o, "size"));
        if (*bytes)
            buf_printf(&out, ", not text; it begins with %s", bytes);
        else if (hint)
            buf_printf(&out, ", %s", hint);
        buf_addc(&out, ']');
        return buf_take(&out);
    }
    add_range(&out, o);
    buf_printf(&out, ", %lld bytes]\n%s", text_int(o, "size"), text_string(o, "content"));
    if (json_is_true(json_object_get(o, "cut_line")))
        buf_printf(&out, "\n[%s]", hint_of(o));
    else if (json_is_true(json_object_get(o, "truncated")))
        buf_printf(&out, "[truncated; continue with start_line %lld]", text_int(o, "next_line"));
    return buf_take(&out);
}

const struct tool tool_read_file = {
    .name = "read_file", .start = start, .text = text_of, .hint = hint_of};
