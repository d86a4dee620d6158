// SPDX-License-Identifier: Apache-2.0
// multipart/form-data: every split of the bytes gives the same parts, and malformed bytes are
// refused.
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/envd/files/multipart.h"
#include "tests/lib/harness/tap.h"

// The calls of the callbacks, as text: "[name|filename]data;" for each part.
struct seen {
    struct buf text;
    int stop_at; // the callback that stops; 0 for none
    int calls;
};

static int count(struct seen *s)
{
    return ++s->calls == s->stop_at;
}

static int on_part(const char *name, const char *filename, void *ctx)
{
    struct seen *s = ctx;
    buf_printf(&s->text, "[%s|%s]", name ? name : "-", filename ? filename : "-");
    return count(s);
}

static int on_data(const char *data, size_t len, void *ctx)
{
    struct seen *s = ctx;
    buf_add(&s->text, data, len);
    return count(s);
}

static int on_part_end(void *ctx)
{
    struct seen *s = ctx;
    buf_addc(&s->text, ';');
    return count(s);
}

static const struct multipart_events EVENTS = {on_part, on_data, on_part_end};

// Feeds the body in two pieces, or byte by byte when split is negative. 0 when it was whole.
static int run(const char *type, const char *body, size_t len, int split, struct seen *s,
               struct err *e)
{
    struct multipart m;
    *s = (struct seen){.stop_at = s->stop_at};
    if (multipart_init(&m, type, &EVENTS, s, e) < 0)
        return -1;
    int rc = 0;
    if (split >= 0) {
        rc = multipart_feed(&m, body, (size_t)split, e);
        if (rc == 0)
            rc = multipart_feed(&m, body + split, len - (size_t)split, e);
    }
    for (size_t i = 0; split < 0 && rc == 0 && i < len; i++)
        rc = multipart_feed(&m, body + i, 1, e);
    if (rc == 0)
        rc = multipart_finish(&m, e);
    multipart_fini(&m);
    return rc;
}

#define TYPE "multipart/form-data; boundary=XY"

static void gives(const char *body, const char *want)
{
    size_t len = strlen(body);
    int wrong = 0;
    for (int split = -1; split <= (int)len; split++) {
        struct err e = ERR_INIT;
        struct seen s = {0};
        if (run(TYPE, body, len, split, &s, &e) < 0 || !str_eq(buf_str(&s.text), want)) {
            if (!wrong++)
                is_str(err_is(&e) ? e.msg : buf_str(&s.text), want, "split at %d", split);
        }
        buf_fini(&s.text);
    }
    ok(wrong == 0, "every split of %zu bytes gives the same %zu", len, strlen(want));
}

static void refuses(const char *type, const char *body, const char *want)
{
    struct err e = ERR_INIT;
    struct seen s = {0};
    int rc = run(type, body, strlen(body), -1, &s, &e);
    ok(rc < 0 && e.code == ERR_INVALID && strstr(e.msg, want), "refused with \"%s\": %s", want,
       e.msg);
    buf_fini(&s.text);
}

#define HEAD(name) "Content-Disposition: form-data; name=\"file\"; filename=\"" name "\"\r\n"

static void test_parts(void)
{
    gives("--XY\r\n" HEAD("a.txt") "\r\nhello\r\n--XY--\r\n", "[file|a.txt]hello;");
    gives("--XY\r\n" HEAD("a") "\r\n1\r\n--XY\r\n" HEAD("d/b") "\r\n2\r\n--XY--",
          "[file|a]1;[file|d/b]2;");
    gives("preamble\r\n--XY \t\r\n" HEAD("a") "\r\n\r\n--XY--\r\nepilogue --XY", "[file|a];");
    gives("--XY\r\n" HEAD("a") "\r\n--XY--", "[file|a];");
    gives("--XY\nContent-Disposition: form-data; name=x\n\nv\r\n--XY--", "[x|-]v;");
    gives("--XY--", "");
    gives("--XY\r\nContent-Type: text/plain\r\n\r\n1\r\n--XY--", "[-|-]1;");
}

static void test_data_like_a_delimiter(void)
{
    gives("--XY\r\n" HEAD("a") "\r\n\r\n--X\r\r\n--XYZ\r\n--\r\n\r\n--XY--",
          "[file|a]\r\n--X\r\r\n--XYZ\r\n--\r\n;");
    gives("--XY\r\n" HEAD("a") "\r\n--XZ\r\n--XY--", "[file|a]--XZ;");
    gives("--XY\r\n" HEAD("a") "\r\n-\r\n--XY--", "[file|a]-;");
    gives("--XYZ\r\n--XY\r\n" HEAD("a") "\r\n.\r\n--XY--", "[file|a].;");
}

static void test_names(void)
{
    gives("--XY\r\n" HEAD("a%22b%0D%0Ac%20d%") "\r\n\r\n--XY--", "[file|a\"b\r\nc%20d%];");
    gives("--XY\r\n" HEAD("a\\\"b\\\\c\\d") "\r\n\r\n--XY--", "[file|a\"b\\c\\d];");
    gives("--XY\r\ncontent-disposition:form-data;name=file;filename=x.y;z\r\n\r\n\r\n--XY--",
          "[file|x.y];");
    gives("--XY\r\nContent-Disposition: form-data; name=\"a;b\"; filename=\"n\"; "
          "filename*=UTF-8''e%C3%A9\r\n\r\n\r\n--XY--",
          "[a;b|e\xC3\xA9];");
    gives("--XY\r\n" HEAD("\xFF\xFE") "\r\n\r\n--XY--", "[file|\xFF\xFE];");
}

static void test_refusals(void)
{
    refuses("multipart/form-data", "", "without a boundary");
    refuses("multipart/form-data; boundary=\"\"", "", "without a boundary");
    refuses(TYPE, "", "ends before");
    refuses(TYPE, "--XY\r\n" HEAD("a") "\r\nhalf", "ends before");
    refuses(TYPE, "--XY\r\n" HEAD("a") "\r\nhalf\r\n--XY", "ends before");
    refuses(TYPE, "--XY -\r\n", "after a boundary");
    refuses(TYPE, "--XY-\r\n", "after a boundary");
    struct buf body auto_buf = BUF_INIT;
    buf_adds(&body, "--XY\r\nX: ");
    for (int i = 0; i < MULTIPART_HEAD_MAX; i++)
        buf_addc(&body, 'x');
    refuses(TYPE, buf_str(&body), "headers of a part");
    struct buf type auto_buf = BUF_INIT;
    buf_adds(&type, "multipart/form-data; boundary=");
    for (int i = 0; i <= MULTIPART_BOUNDARY_MAX; i++)
        buf_addc(&type, 'x');
    refuses(buf_str(&type), "", "at most");
}

static void test_nul_in_a_header(void)
{
    static const char BODY[] = "--XY\r\nContent-Disposition: form-data; name=file\0; x\r\n\r\n";
    struct err e = ERR_INIT;
    struct seen s = {0};
    ok(run(TYPE, BODY, sizeof BODY - 1, 0, &s, &e) < 0 && strstr(e.msg, "NUL"), "NUL is refused");
    buf_fini(&s.text);
}

static void test_stops(void)
{
    static const char BODY[] = "--XY\r\n" HEAD("a") "\r\nhello\r\n--XY--";
    for (int at = 1; at <= 3; at++) {
        struct err e = ERR_INIT;
        struct seen s = {.stop_at = at};
        ok(run(TYPE, BODY, sizeof BODY - 1, 0, &s, &e) < 0, "callback %d stops it", at);
        is_int(e.code, ERR_CANCELED, "and that is the error");
        is_int(s.calls, at, "nothing is called afterwards");
        buf_fini(&s.text);
    }
}

int main(void)
{
    test_parts();
    test_data_like_a_delimiter();
    test_names();
    test_refusals();
    test_nul_in_a_header();
    test_stops();
    return tap_done();
}
