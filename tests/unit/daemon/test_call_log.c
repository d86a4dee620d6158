// SPDX-License-Identifier: Apache-2.0
// The call log: masks, the chain of hashes, a torn line, a disk that is full, the cap; and how
// streams are cut into pieces and output is found in them.
#include "sandbox-backend/daemon/calls/call_log.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/calls/call_figure.h"
#include "sandbox-backend/daemon/calls/call_files.h"
#include "sandbox-backend/daemon/calls/call_message.h"
#include "sandbox-backend/daemon/calls/call_output.h"
#include "sandbox-backend/daemon/calls/pieces.h"
#include "tests/lib/harness/tap.h"

#define ID "aaaaaaaaaaaaaaaaaaaa"

// ---- masks

static const char *masked(const struct masks *m, const char *text)
{
    static char copy[4096];
    snprintf(copy, sizeof copy, "%s", text);
    masks_apply(&m, 1, 12345677, copy, strlen(copy));
    return copy;
}

static void test_masks(void)
{
    struct masks m = {0}, other = {0};
    char long_value[201], text[300];
    masks_add(&m, 12345677, "hunter2-hunter2");
    masks_add(&m, 12345677, "short");
    masks_add(&m, 12345677, "line one of a key\nline two of a key");
    is_str(masked(&m, "a hunter2-hunter2 b"), "a *************** b", "a value is hidden");
    is_str(masked(&m, "hunter2-hunter"), "hunter2-hunter", "a part of it is not the value");
    is_str(masked(&m, "short"), "short", "a short value is in every text");
    is_str(masked(&m, "x line two of a key"), "x *****************", "each line of a value");
    for (size_t i = 0; i < sizeof long_value - 1; i++)
        long_value[i] = (char)('a' + (i * 7 + i / 13) % 26);
    long_value[sizeof long_value - 1] = '\0';
    masks_add(&m, 12345677, long_value);
    snprintf(text, sizeof text, "<%.128s>", long_value);
    const char *hidden = masked(&m, text);
    ok(strspn(hidden + 1, "*") == 128 && hidden[129] == '>', "the pieces of a long value");
    json_t *json = masks_to_json(&m);
    char *told auto_free = json_to_string(json);
    ok(!strstr(told, "hunter2"), "what is kept has none of the value");
    masks_from_json(&other, json);
    json_decref(json);
    is_str(masked(&other, "hunter2-hunter2"), "***************", "kept and read again");
    masks_fini(&m);
    masks_fini(&other);
}

static void test_recent(void)
{
    struct masks m = {.is_recent = true}, all = {0};
    char value[32];
    for (int i = 0; i < MASKS_RECENT_MAX + 1; i++) {
        snprintf(value, sizeof value, "value-%06d", i);
        masks_add(&m, 12345677, value);
    }
    is_str(masked(&m, "value-000000"), "value-000000",
           "the oldest of the recent ones is forgotten");
    is_str(masked(&m, "value-000256"), "************", "the newest is hidden");
    for (int i = 0; i < 4 * MASKS_RECENT_MAX; i++) { // the ring goes round
        snprintf(value, sizeof value, "value-%06d", i);
        masks_add(&m, 12345677, value);
    }
    is_str(masked(&m, "value-000767 value-000768 value-001023"),
           "value-000767 ************ ************", "the last 256 are known");
    for (int i = 0; i <= MASKS_MAX; i++) {
        snprintf(value, sizeof value, "value-%06d", i);
        masks_add(&all, 12345677, value);
    }
    ok(all.is_full && all.count == MASKS_MAX, "a sandbox has so many");
    is_str(masked(&all, "anything"), "anything", "too many values do not blacken the log");
    masks_fini(&m);
    masks_fini(&all);
}

// Variables cannot take the room of tokens and secrets, which are marked after them.
static void test_many_values(void)
{
    struct masks m = {0}, other = {0};
    struct buf lines auto_buf = BUF_INIT;
    for (int i = 0; i < 4090; i++)
        buf_printf(&lines, "line-%06d\n", i);
    json_t *variables = json_pack("{s:s}", "MANY", buf_str(&lines));
    masks_add_values(&m, 12345677, variables);
    json_decref(variables);
    ok(m.is_full && m.count == MASKS_VALUES_MAX, "a variable of many lines has so many masks");
    masks_add(&m, 12345677, "token-token");
    masks_add(&other, 12345677, "other-value");
    char text[] = "line-000383 line-000384 token-token other-value";
    const struct masks *const sets[] = {&m, NULL, &other};
    masks_apply(sets, ARRAY_LEN(sets), 12345677, text, strlen(text));
    is_str(text, "*********** line-000384 *********** ***********", "all sets are applied at once");
    masks_fini(&m);
    masks_fini(&other);
}

// ---- the log

struct fixture {
    uv_loop_t loop;
    struct call_logs logs;
    struct call_log log;
    struct call_place place;
};

static void begin(struct fixture *f, const char *home)
{
    const struct call_logs_opts opts = {.file_bytes = CALL_LOG_BYTES_MIN,
                                        .output_bytes = 100,
                                        .keep_s = 1000,
                                        .space_bytes = 1 << 20};
    memset(f, 0, sizeof *f);
    uv_loop_init(&f->loop);
    call_logs_open(&f->logs, &f->loop, home, &opts);
    f->log.recent.is_recent = true;
    f->place = (struct call_place){&f->logs, &f->log, ID, "ci", NULL};
}

static void end(struct fixture *f)
{
    uv_run(&f->loop, UV_RUN_DEFAULT);
    call_log_fini(&f->log);
    call_logs_fini(&f->logs);
    uv_loop_close(&f->loop);
}

static int64_t add(struct fixture *f, const char *text)
{
    json_t *line = json_pack("{s:s}", "kind", "test");
    call_set_text(&f->place, line, "text", text, CALL_PATH_BYTES);
    return call_log_add(&f->place, line);
}

// Read the whole log, and return whether each line has the hash of the one before.
static bool read_all(struct fixture *f, struct buf *lines)
{
    struct err e = ERR_INIT;
    json_t *owner = NULL;
    struct sha256 last = {{0}};
    bool fits = true, first = true;
    buf_clear(lines);
    call_files_read(&f->logs, ID, 0, 0, 1 << 30, lines, &owner, &e);
    const char *at = buf_str(lines);
    for (const char *stop; (stop = strchr(at, '\n')); at = stop + 1) {
        json_t *line = json_parse(at, (size_t)(stop - at), NULL);
        struct sha256 prev = {{1}};
        const char *hex = json_string_value(json_object_get(line, "prev"));
        bool is_cut = first && json_integer_value(json_object_get(line, "n")) > 1;
        fits = fits && hex && sha256_from_hex(hex, &prev) && (is_cut || sha256_equal(&prev, &last));
        last = sha256_of(at, (size_t)(stop - at));
        first = false;
        json_decref(line);
    }
    json_decref(owner);
    return fits && !first;
}

static size_t count(const struct buf *lines, const char *what)
{
    size_t n = 0;
    for (const char *at = buf_str(lines); (at = strstr(at, what)); at++)
        n++;
    return n;
}

static void test_chain(const char *home)
{
    struct fixture f;
    struct buf lines auto_buf = BUF_INIT;
    begin(&f, home);
    ok(add(&f, "one") == 2 && add(&f, "two") == 3, "numbers follow the head's");
    ok(read_all(&f, &lines) && count(&lines, "\n") == 3, "each line has the hash of the last");
    ok(count(&lines, "\"owner\":\"ci\"") == 1, "the head names the owner");
    call_log_hide(&f.place, "hunter2-hunter2");
    add(&f, "say hunter2-hunter2\n");
    read_all(&f, &lines);
    ok(count(&lines, "hunter2") == 0 && count(&lines, "***************") == 1, "texts are masked");
    call_log_hide(&f.place, "somebodys-key");
    f.place.owner = "somebodys-key";
    call_log_add(&f.place, json_pack("{s:s, s:s}", "kind", "request", "who", "somebodys-key"));
    read_all(&f, &lines);
    ok(count(&lines, "\"who\":\"somebodys-key\"") == 1, "a value does not change who did it");
    end(&f);
}

static void test_restart(const char *home)
{
    struct fixture f;
    struct buf lines auto_buf = BUF_INIT;
    char *path auto_free = str_printf("%s/calls/" ID ".jsonl", home);
    int fd = open(path, O_WRONLY | O_APPEND);
    ok(write(fd, "{\"n\":5,\"at\":", 12) == 12, "half a line is left");
    close(fd);
    begin(&f, home);
    add(&f, "three");
    ok(read_all(&f, &lines), "the chain goes on after a restart");
    ok(count(&lines, "\"why\":\"torn\",\"bytes\":12") == 1, "the torn line is told");
    ok(count(&lines, "daemon_restarted") == 1, "and so is the restart");
    end(&f);
}

static void test_damaged(const char *home)
{
    struct fixture f;
    struct buf lines auto_buf = BUF_INIT;
    char *path auto_free = str_printf("%s/calls/" ID ".jsonl", home);
    file_replace(path, "no line\n", 8, 0600, NULL);
    begin(&f, home);
    add(&f, "after");
    ok(read_all(&f, &lines) && count(&lines, "\"why\":\"damaged\"") == 1,
       "a file that is no log is put aside, which is told");
    ok(count(&lines, "\"kind\":\"head\"") == 1 && count(&lines, "\"after\"") == 1,
       "another chain begins");
    end(&f);
}

// A file may have no more bytes: a write fails as on a full disk, in the middle of a line.
static void test_full(const char *home)
{
    struct fixture f;
    struct rlimit before, limit;
    struct buf lines auto_buf = BUF_INIT;
    begin(&f, home);
    int64_t n = add(&f, "before");
    getrlimit(RLIMIT_FSIZE, &before);
    limit = before;
    limit.rlim_cur = (rlim_t)f.log.bytes + 20;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    ok(add(&f, "lost 1") == n + 1 && add(&f, "lost 2") > n + 1, "the caller is not stopped");
    setrlimit(RLIMIT_FSIZE, &before);
    add(&f, "after");
    ok(read_all(&f, &lines), "the chain has no break");
    ok(count(&lines, "lost") == 0 && count(&lines, "\"after\"") == 1, "two lines are missing");
    char *gap auto_free = str_printf("\"why\":\"not_written\",\"first\":%lld", (long long)n + 1);
    ok(count(&lines, gap) == 1, "the gap is told, with its first line");
    end(&f);
}

static void test_cap(const char *home)
{
    struct fixture f;
    struct buf lines auto_buf = BUF_INIT;
    char text[512];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    begin(&f, home);
    for (int i = 0; i < 400; i++)
        add(&f, text);
    ok(read_all(&f, &lines), "the chain goes on over the files");
    ok(lines.len < CALL_LOG_BYTES_MIN + 2048, "both files keep the cap");
    const char *head = strrchr(strstr(buf_str(&lines), "\"kind\":\"head\""), '{');
    ok(head && count(&lines, "\"kind\":\"head\"") == 2, "each begins with a head");
    int64_t first = call_line_number(buf_str(&lines), lines.len);
    char *dropped auto_free = str_printf("\"dropped\":%lld,", (long long)first - 1);
    ok(first > 1 && count(&lines, dropped) == 1, "the newest head names what was dropped");
    call_log_end(&f.place);
    ok(read_all(&f, &lines), "it can be read after the end");
    end(&f);
}

#define PNG_BEGIN "\x89PNG\r\n\x1a\n\0\0\0\rIHDR"

static bool tell_figure(struct fixture *f, const char *member, const void *bytes, size_t len)
{
    struct buf base64 auto_buf = BUF_INIT;
    base64_encode(&base64, bytes, len);
    json_t *result = json_pack("{s:s, s:s}", "text", "x", member, buf_str(&base64));
    bool told = call_figure_tell(&f->place, 7, result, false);
    json_decref(result);
    return told;
}

static void test_figures(const char *home)
{
    struct fixture f;
    struct buf lines auto_buf = BUF_INIT;
    static char large[CALL_FIGURE_BYTES + 1024] = PNG_BEGIN;
    begin(&f, home);
    f.logs.opts.file_bytes = 4 * 2 * CALL_FIGURE_CHARS - 4;
    ok(tell_figure(&f, "png", PNG_BEGIN, 16) && tell_figure(&f, "jpeg", "\xff\xd8\xff", 3), "two");
    read_all(&f, &lines);
    ok(count(&lines, "\"of\":7,\"type\":\"image/png\",\"bytes\":16,\"data\":\"iVBOR") == 1 &&
           count(&lines, "\"type\":\"image/jpeg\",\"bytes\":3,\"data\":\"/9j/\"") == 1,
       "are kept with their bytes");
    ok(!tell_figure(&f, "svg", "<svg/>", 6), "a picture of vectors is none");
    tell_figure(&f, "png", "<script>alert(1)</script>", 25);
    tell_figure(&f, "jpeg", PNG_BEGIN, 16);
    read_all(&f, &lines);
    ok(count(&lines, "\"why\":\"not a picture\"") == 2 && count(&lines, "\"data\"") == 2,
       "the bytes decide, not the name");
    tell_figure(&f, "png", large, sizeof large);
    for (int i = 0; i < 3; i++)
        tell_figure(&f, "png", large, CALL_FIGURE_BYTES);
    read_all(&f, &lines);
    ok(count(&lines, "\"why\":\"too large\"") == 1, "there is a limit for each");
    ok(count(&lines, "\"data\"") == 3 && count(&lines, "\"why\":\"no room\"") == 2,
       "and for all in one file");
    f.log.bytes = f.logs.opts.file_bytes;
    add(&f, "the next file");
    tell_figure(&f, "png", large, CALL_FIGURE_BYTES);
    ok(read_all(&f, &lines) && count(&lines, "\"data\"") == 4, "the next file has room again");
    end(&f);
}

// A daemon ended between the rename and the next head.
static void test_older_alone(const char *home)
{
    struct fixture f;
    struct buf lines auto_buf = BUF_INIT;
    char *path auto_free = str_printf("%s/calls/" ID ".jsonl", home);
    char *older auto_free = str_printf("%s/calls/" ID ".1.jsonl", home);
    begin(&f, home);
    int64_t n = add(&f, "before the rename");
    end(&f);
    ok(rename(path, older) == 0, "the newest file became the older one");
    begin(&f, home);
    ok(read_all(&f, &lines) && count(&lines, "before the rename") == 1, "it can be read alone");
    add(&f, "after the rename");
    ok(read_all(&f, &lines), "the chain goes on from it");
    int64_t first = call_line_number(buf_str(&lines), lines.len);
    ok(first == 1 && f.log.n == n + 3, "with its numbers: head, restart, line");
    ok(count(&lines, "rename") == 2 && count(&lines, "\"kind\":\"head\"") == 2,
       "in a file of its own");
    end(&f);
}

static bool none_exists(const char *id, void *ctx)
{
    (void)id;
    (void)ctx;
    return false;
}

static void test_older_alone_of_an_ended(const char *home)
{
    struct fixture f;
    struct buf lines auto_buf = BUF_INIT;
    char *path auto_free = str_printf("%s/calls/" ID ".jsonl", home);
    char *older auto_free = str_printf("%s/calls/" ID ".1.jsonl", home);
    char *ended auto_free = str_printf("%s/calls/ended/" ID ".1.jsonl", home);
    begin(&f, home);
    add(&f, "before");
    end(&f);
    unlink(older);
    rename(path, older);
    begin(&f, home);
    call_logs_end_others(&f.logs, none_exists, NULL);
    ok(access(ended, F_OK) == 0 && access(older, F_OK) < 0, "an older file alone is put away");
    ok(read_all(&f, &lines) && count(&lines, "\"before\"") == 1, "and read");
    end(&f);
    unlink(ended);
}

static void lose_two(struct fixture *f)
{
    struct rlimit before, limit;
    getrlimit(RLIMIT_NOFILE, &before);
    limit = before;
    limit.rlim_cur = 0; // no descriptor is free
    setrlimit(RLIMIT_NOFILE, &limit);
    ok(add(f, "lost 1") == 0 && add(f, "lost 2") == 0, "lines without a number are lost");
    setrlimit(RLIMIT_NOFILE, &before);
    add(f, "found");
}

static bool has_gap(const struct buf *lines, int64_t first)
{
    char *gap auto_free =
        str_printf("\"first\":%lld,\"last\":%lld,", (long long)first, (long long)first + 1);
    return count(lines, gap) == 1 && count(lines, "\"found\"") == 1;
}

// A file that cannot be opened now is no missing file.
static void test_unreadable(const char *home)
{
    struct fixture f;
    struct buf lines auto_buf = BUF_INIT;
    begin(&f, home);
    int64_t n = add(&f, "seen");
    end(&f);
    begin(&f, home);
    lose_two(&f);
    ok(read_all(&f, &lines) && has_gap(&lines, n + 2), "the chain goes on, and tells the gap");
    end(&f);
}

static void test_unreadable_and_new(const char *home)
{
    struct fixture f;
    struct buf lines auto_buf = BUF_INIT;
    begin(&f, home);
    lose_two(&f);
    ok(read_all(&f, &lines) && has_gap(&lines, 1), "the first lines are missing");
    call_log_end(&f.place);
    end(&f);
}

// ---- pieces

static void on_piece(const struct piece *p, void *ctx)
{
    buf_printf(ctx, "[%u %.*s/%zu %.*s]", p->flags, (int)p->kept, p->data, p->len, (int)p->tail_len,
               p->tail);
}

static void test_pieces(void)
{
    static const char STREAM[] = "\0\0\0\0\3abc\2\0\0\0\0\0\0\0\0\14abcdefghijkl";
    bool same = true;
    for (size_t cut = 1; cut < sizeof STREAM - 1; cut++) {
        struct pieces p = {.keep = 5};
        struct buf told auto_buf = BUF_INIT;
        pieces_feed(&p, STREAM, cut, on_piece, &told);
        pieces_feed(&p, STREAM + cut, sizeof STREAM - 1 - cut, on_piece, &told);
        same = same && str_eq(buf_str(&told), "[0 abc/3 abc][2 /0 ][0 abcde/12 efghijkl]");
        pieces_fini(&p);
    }
    ok(same, "envelopes, wherever the stream is cut");
    struct pieces lines = {.is_lines = true, .keep = 3};
    struct buf told auto_buf = BUF_INIT;
    pieces_feed(&lines, "ab\n\nabcd", 8, on_piece, &told);
    pieces_feed(&lines, "ef\n", 3, on_piece, &told);
    is_str(buf_str(&told), "[0 ab/2 ab][0 /0 ][0 abc/6 abcdef]", "lines");
    pieces_fini(&lines);
    static const char RESULTS[] = "abcdef\nabxdef\nabcd\n";
    for (size_t step = 1; step < sizeof RESULTS; step++) {
        struct pieces longer = {.is_lines = true, .keep = 3, .longer = "abc", .longer_keep = 5};
        buf_clear(&told);
        for (size_t at = 0, n; at < sizeof RESULTS - 1; at += n) {
            n = sizeof RESULTS - 1 - at < step ? sizeof RESULTS - 1 - at : step;
            pieces_feed(&longer, RESULTS + at, n, on_piece, &told);
        }
        is_str(buf_str(&told), "[0 abcde/6 abcdef][0 abx/6 abxdef][0 abcd/4 abcd]",
               "more of lines that begin so, in steps of %zu", step);
        pieces_fini(&longer);
    }
}

static void check_data(const char *json, size_t keep, const char *stream, const char *bytes,
                       int64_t all, const char *name)
{
    size_t len = strlen(json);
    const struct piece piece = {0, json, keep < len ? keep : len, len, json + len - 8, 8};
    struct call_data data = {0};
    bool is_data = call_read_data(&piece, false, &data);
    ok(is_data && str_eq(data.stream, stream) && str_eq(buf_str(&data.bytes), bytes) &&
           data.all == all,
       "%s", name);
    buf_fini(&data.bytes);
}

static void test_data(void)
{
    static const char PROTO[] = "\x0a\x09\x12\x07\x12\x05hello";
    struct call_data data = {0};
    check_data("{\"event\":{\"data\":{\"stdout\":\"aGVsbG8=\"}}}", 999, "stdout", "hello", 5,
               "output in JSON");
    check_data("{\"event\":{\"data\":{\"pty\":\"aGVsbG8h\"}}}", 999, "pty", "hello!", 6,
               "of a terminal");
    check_data("{\"event\":{\"data\":{\"stderr\":\"aGVsbG8gd29ybGQ=\"}}}", 36, "stderr", "hello ",
               11, "the first bytes of it");
    const struct piece piece = {0, PROTO, sizeof PROTO - 1, sizeof PROTO - 1, PROTO + 3, 8};
    ok(call_read_data(&piece, true, &data) && str_eq(data.stream, "stderr") &&
           str_eq(buf_str(&data.bytes), "hello") && data.all == 5,
       "as Protocol Buffers");
    buf_fini(&data.bytes);
    for (size_t len = 0; len < sizeof PROTO - 1; len++) {
        const struct piece cut = {0, PROTO, len, len, PROTO, len < 8 ? len : 8};
        struct call_data none = {0};
        call_read_data(&cut, true, &none);
        call_read_data(&cut, false, &none);
        buf_fini(&none.bytes);
    }
    ok(true, "cut ones do no harm");
}

static void test_text(const char *home)
{
    struct fixture f;
    bool cut = false;
    begin(&f, home);
    call_log_hide(&f.place, "0123456789");
    json_t *text = call_text(&f.place, "ab0123456789cd", 14, 6, &cut);
    is_str(json_string_value(text), "ab****", "a value over the cut is hidden, too");
    ok(cut, "the cut is told");
    json_decref(text);
    text = call_text(&f.place, "a\xc3\xa9", 3, 2, &cut);
    is_str(json_string_value(text), "a", "no half character");
    json_decref(text);
    end(&f);
}

int main(void)
{
    char home[] = "/tmp/cubby-calls-XXXXXX", other[] = "/tmp/cubby-calls-XXXXXX";
    ok(mkdtemp(home) && mkdtemp(other), "two homes");
    test_masks();
    test_recent();
    test_many_values();
    test_chain(home);
    test_restart(home);
    test_full(home);
    test_older_alone(home);
    test_unreadable(home);
    test_older_alone_of_an_ended(home);
    test_unreadable_and_new(other);
    test_cap(other);
    test_damaged(home);
    test_figures(home);
    test_pieces();
    test_data();
    test_text(other);
    dir_remove(home, NULL);
    dir_remove(other, NULL);
    return tap_done();
}
