// SPDX-License-Identifier: Apache-2.0
// Files into a sandbox and out of it.
#include <fcntl.h>
#include <sys/mman.h>

#include "tests/lib/client/client_fake.h"

static struct fake f;
static int64_t moved;
static char path[256];

static void on_file(const char *where, int64_t bytes, const struct err *e, void *ctx)
{
    moved = bytes;
    snprintf(path, sizeof path, "%s", where);
    fake_finish(ctx, e);
}

static int file_of(const char *text, size_t times)
{
    int fd = memfd_create("test", MFD_CLOEXEC);
    for (size_t i = 0; i < times; i++)
        fd_write_all(fd, text, strlen(text), NULL);
    lseek(fd, 0, SEEK_SET);
    return fd;
}

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

// ---- uploads
static void answer_upload(struct fake *fake, struct http_request *req, const char *target)
{
    (void)fake;
    (void)target;
    fake_json(req, 200, "[{\"path\":\"/home/user/a b\",\"name\":\"a b\",\"type\":\"file\"}]");
}

static void answer_full(struct fake *fake, struct http_request *req, const char *target)
{
    (void)fake;
    (void)target;
    fake_json(req, 507, "{\"code\":507,\"message\":\"the disk is full\"}");
}

static void test_upload(void)
{
    fake_open(&f, NULL);
    f.answer = answer_upload;
    int fd = file_of("0123456789abcdef", 1 << 16);
    client_upload(f.client, FAKE_ID, fd, "a b", "root", on_file, &f);
    fake_run(&f);
    ok(!err_is(&f.err), "uploaded: %s", f.err.msg);
    is_int(moved, 1 << 20, "bytes");
    is_int((int64_t)f.body.len, 1 << 20, "arrived");
    ok(memcmp(f.body.data + (1 << 20) - 4, "cdef", 4) == 0, "whole");
    is_str(path, "/home/user/a b", "where it went");
    is_str(buf_str(&f.content_type), "application/octet-stream", "type");
    is_str(buf_str(&f.user), "Basic cm9vdDo=", "user");
    ok(!is_open(fd), "the descriptor was taken");
    char *seen auto_free = fake_seen(&f);
    is_str(seen, "GET /sandboxes/" FAKE_ID "\nPOST /files?path=a%20b&username=root\n", "requests");
    client_upload(f.client, FAKE_ID, file_of("", 0), "empty", NULL, on_file, &f);
    fake_run(&f);
    ok(!err_is(&f.err) && moved == 0 && f.body.len == 0, "an empty file: %s", f.err.msg);
    client_upload_bytes(f.client, FAKE_ID, "x\0y", 3, "b", NULL, on_file, &f);
    fake_run(&f);
    ok(!err_is(&f.err) && moved == 3 && f.body.len == 3, "bytes: %s", f.err.msg);
    client_upload_bytes(f.client, FAKE_ID, NULL, 0, "b", NULL, on_file, &f);
    fake_run(&f);
    ok(!err_is(&f.err) && f.body.len == 0, "no bytes: %s", f.err.msg);
    f.answer = answer_full;
    client_upload(f.client, FAKE_ID, file_of("x", 9), "b", NULL, on_file, &f);
    fake_run(&f);
    is_int(f.err.code, ERR_NO_SPACE, "no room: %s", f.err.msg);
    client_upload(f.client, FAKE_ID, open("/", O_RDONLY), "b", NULL, on_file, &f);
    fake_run(&f);
    is_int(f.err.code, ERR_INVALID, "a directory: %s", f.err.msg);
    client_upload_bytes(f.client, FAKE_ID, "x", 1, "", NULL, on_file, &f);
    fake_run(&f);
    is_int(f.err.code, ERR_INVALID, "no path: %s", f.err.msg);
    fake_close(&f);
}

// The file becomes shorter after its length was promised.
static void test_upload_shrinks(void)
{
    fake_open(&f, NULL);
    f.answer = answer_upload;
    int fd = file_of("0123456789abcdef", 1 << 10);
    int other auto_close = dup(fd);
    client_upload(f.client, FAKE_ID, fd, "x", NULL, on_file, &f);
    is_int(ftruncate(other, 100), 0, "cut");
    fake_run(&f);
    is_int(f.err.code, ERR_CONFLICT, "noticed: %s", f.err.msg);
    fake_close(&f);
}

// ---- downloads
static int64_t send_length, send_bytes;

static void answer_bytes(struct fake *fake, struct http_request *req, const char *target)
{
    (void)fake;
    (void)target;
    char piece[1000];
    memset(piece, 'x', sizeof piece);
    http_response_begin(req, 200, send_length);
    for (int64_t sent = 0; sent < send_bytes; sent += (int64_t)sizeof piece)
        http_response_write(req, piece, sizeof piece);
    http_response_end(req);
}

static void answer_missing(struct fake *fake, struct http_request *req, const char *target)
{
    (void)fake;
    (void)target;
    fake_json(req, 404, "{\"code\":404,\"message\":\"path '/x' does not exist\"}");
}

static void download(int fd, int64_t max)
{
    client_download(f.client, FAKE_ID, "/x", fd, max, NULL, on_file, &f);
    fake_run(&f);
}

static void test_download(void)
{
    fake_open(&f, NULL);
    f.answer = answer_bytes;
    send_bytes = 200000;
    for (int i = 0; i < 2; i++) {
        send_length = i ? -1 : send_bytes;
        int fd = file_of("", 0);
        int kept auto_close = dup(fd);
        download(fd, 200000);
        ok(!err_is(&f.err), "%s: %s", i ? "chunked" : "with a length", f.err.msg);
        is_int(moved, 200000, "bytes");
        is_int(lseek(kept, 0, SEEK_END), 200000, "in the file");
        ok(!is_open(fd), "the descriptor was taken");
        download(file_of("", 0), 199999);
        is_int(f.err.code, ERR_TOO_LARGE, "over the limit: %s", f.err.msg);
    }
    download(open("/dev/full", O_WRONLY | O_CLOEXEC), 1 << 20);
    is_int(f.err.code, ERR_NO_SPACE, "no room here: %s", f.err.msg);
    f.answer = answer_missing;
    int fd = file_of("", 0);
    int kept auto_close = dup(fd);
    download(fd, 100);
    is_int(f.err.code, ERR_NOT_FOUND, "missing");
    is_str(f.err.msg, "path '/x' does not exist", "in envd's words");
    is_int(lseek(kept, 0, SEEK_END), 0, "the error is not the file");
    fake_close(&f);
}

static void answer_cut(struct fake *fake, struct http_request *req, const char *target)
{
    (void)fake;
    (void)target;
    http_response_begin(req, 200, 1000);
    http_response_write(req, "x", 1);
    http_response_abort(req);
}

static void test_cut(void)
{
    fake_open(&f, NULL);
    f.answer = answer_cut;
    download(file_of("", 0), 5000);
    is_int(f.err.code, ERR_UNAVAILABLE, "a broken download: %s", f.err.msg);
    struct client_op *op =
        client_download(f.client, FAKE_ID, "/x", file_of("", 0), 5000, NULL, on_file, &f);
    client_cancel(op);
    fake_run(&f);
    is_int(f.err.code, ERR_CANCELED, "canceled");
    fake_close(&f);
}

// ---- into memory
static struct buf content;
static bool has_content;

static void on_read(const char *data, size_t len, const struct err *e, void *ctx)
{
    buf_clear(&content);
    has_content = data != NULL;
    if (data) {
        buf_add(&content, data, len);
        is_int(data[len], 0, "a NUL behind it");
    }
    fake_finish(ctx, e);
}

static void read_file(int64_t max)
{
    client_read(f.client, FAKE_ID, "/x", max, "root", on_read, &f);
    fake_run(&f);
}

static void test_read(void)
{
    fake_open(&f, NULL);
    f.answer = answer_bytes;
    for (int i = 0; i < 2; i++) {
        send_bytes = 200000;
        send_length = i ? -1 : send_bytes;
        read_file(200000);
        ok(!err_is(&f.err) && content.len == 200000, "%s: %s", i ? "chunked" : "with a length",
           f.err.msg);
        read_file(199999);
        is_int(f.err.code, ERR_TOO_LARGE, "over the limit: %s", f.err.msg);
        ok(!has_content, "nothing with an error");
    }
    is_str(buf_str(&f.user), "Basic cm9vdDo=", "user");
    send_bytes = send_length = 0;
    read_file(0);
    ok(!err_is(&f.err) && has_content && content.len == 0, "an empty file: %s", f.err.msg);
    f.answer = answer_missing;
    read_file(100);
    is_int(f.err.code, ERR_NOT_FOUND, "missing: %s", f.err.msg);
    f.answer = answer_cut;
    read_file(5000);
    is_int(f.err.code, ERR_UNAVAILABLE, "broken: %s", f.err.msg);
    client_cancel(client_read(f.client, FAKE_ID, "/x", 5000, NULL, on_read, &f));
    fake_run(&f);
    is_int(f.err.code, ERR_CANCELED, "canceled");
    fake_close(&f);
    buf_fini(&content);
}

// A file without end is not read to its end.
static struct http_request *endless;
static int64_t sent;

static void send_more(void *ctx)
{
    static char piece[65536];
    (void)ctx;
    do
        sent += (int64_t)sizeof piece;
    while (http_response_write(endless, piece, sizeof piece));
}

static void on_endless_gone(void *ctx)
{
    *(bool *)ctx = true;
}

static bool is_gone;

static void answer_endless(struct fake *fake, struct http_request *req, const char *target)
{
    (void)fake;
    (void)target;
    endless = req;
    http_request_on_close(req, on_endless_gone, &is_gone);
    http_response_on_drain(req, send_more, NULL);
    http_response_begin(req, 200, -1);
    send_more(NULL);
}

static void test_read_endless(void)
{
    fake_open(&f, NULL);
    f.answer = answer_endless;
    read_file(100000);
    is_int(f.err.code, ERR_TOO_LARGE, "too large: %s", f.err.msg);
    while (!is_gone)
        uv_run(&f.loop, UV_RUN_ONCE);
    ok(sent < 16 << 20, "and most of it not sent");
    fake_close(&f);
}

int main(void)
{
    test_upload();
    test_upload_shrinks();
    test_download();
    test_cut();
    test_read();
    test_read_endless();
    return tap_done();
}
