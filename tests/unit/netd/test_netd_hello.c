// SPDX-License-Identifier: Apache-2.0
// The first bytes of clients: real ones (captured: tests/fuzz/corpus/netd_hello), cut into pieces,
// and hostile ones that two parsers would understand differently.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/netd/gate/hello.h"
#include "tests/lib/harness/tap.h"

#define CORPUS "tests/fuzz/corpus/netd_hello/"

static uint8_t bytes[65536];
static size_t len;
static struct hello h;

static void load(const char *file)
{
    char path[256];
    snprintf(path, sizeof(path), CORPUS "%s", file);
    FILE *f = fopen(path, "rb");
    len = f ? fread(bytes, 1, sizeof(bytes), f) : 0;
    if (f)
        fclose(f);
    ok(len > 0, "%s is there", file);
}

// In its own block, so that a sanitizer sees its end.
static enum hello_kind parse(const void *data, size_t n)
{
    uint8_t *copy = malloc(n + 1);
    if (!copy)
        abort();
    memcpy(copy, data, n);
    hello_parse(&h, copy, n);
    free(copy);
    return h.kind;
}

// As a whole it is `kind` for `name`; of each shorter piece nothing is said yet.
static void real_client(const char *file, enum hello_kind kind, const char *name)
{
    load(file);
    is_int(parse(bytes, len), kind, "%s: its kind", file);
    is_str(h.name.text, name, "%s: its name", file);
    size_t early = 0;
    size_t end = len;
    const uint8_t *head_end = memmem(bytes, len, "\r\n\r\n", 4);
    if (kind == HELLO_HTTP && head_end)
        end = (size_t)(head_end + 4 - bytes);
    for (size_t n = 0; n < end; n++)
        early += parse(bytes, n) != HELLO_MORE;
    is_int(early, 0, "%s: cut short nothing is said", file);
}

static void real_clients(void)
{
    real_client("tls_openssl13", HELLO_TLS, "openssl.example.com");
    real_client("tls_openssl12", HELLO_TLS, "openssl.example.com");
    real_client("tls_no_sni", HELLO_TLS, "");
    real_client("tls_curl", HELLO_TLS, "curl.example.com");
    real_client("tls_node", HELLO_TLS, "node.example.com");
    real_client("tls_python", HELLO_TLS, "python.example.com");
    real_client("http_curl_get", HELLO_HTTP, "curl.example.com");
    real_client("http_curl_post", HELLO_HTTP, "curl.example.com");
    real_client("http_curl_chunked", HELLO_HTTP, "curl.example.com");
    real_client("http_curl_proxy", HELLO_HTTP, "curl.example.com");
    real_client("http_curl_connect", HELLO_CONNECT, "curl.example.com");
    real_client("http_python", HELLO_HTTP, "python.example.com");
    real_client("http_wget", HELLO_HTTP, "wget.example.com");
    real_client("http_curl_h2c", HELLO_HTTP, "curl.example.com");
    ok(parse(bytes, len) == HELLO_HTTP && h.has_upgrade, "and it would change the protocol");
    load("http2_prior");
    is_int(parse(bytes, len), HELLO_OTHER, "HTTP/2 without a handshake");
    load("ssh");
    is_int(parse(bytes, len), HELLO_OTHER, "ssh");
}

// ---- TLS

// The message of `bytes`, in records of `size` bytes.
static size_t in_records(uint8_t *out, size_t size)
{
    size_t at = 0;
    for (size_t from = 5; from < len; from += size) {
        size_t n = len - from < size ? len - from : size;
        const uint8_t head[] = {22, 3, 1, (uint8_t)(n >> 8), (uint8_t)n};
        memcpy(out + at, head, sizeof(head));
        memcpy(out + at + sizeof(head), bytes + from, n);
        at += sizeof(head) + n;
    }
    return at;
}

static void split_over_records(void)
{
    static uint8_t out[65536];
    load("tls_curl");
    static const size_t sizes[] = {1, 2, 3, 7, 100, 500};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t n = in_records(out, sizes[i]);
        is_int(parse(out, n), HELLO_TLS, "in records of %zu bytes", sizes[i]);
        is_str(h.name.text, "curl.example.com", "its name");
        is_int(parse(out, n - 1), HELLO_MORE, "one byte short");
        out[n] = 0xff;
        is_int(parse(out, n + 1), HELLO_TLS, "what comes behind it is not looked at");
    }
    size_t n = in_records(out, 100);
    out[105] = 23;
    is_int(parse(out, n), HELLO_BAD, "application data in the middle");
    out[105] = 22;
    out[108] = out[109] = 0;
    is_int(parse(out, n), HELLO_BAD, "an empty record in the middle");
}

static void put16(uint8_t *at, size_t v)
{
    at[0] = (uint8_t)(v >> 8);
    at[1] = (uint8_t)v;
}

// A ClientHello with these extensions.
static void make_hello(const void *extensions, size_t size)
{
    static const uint8_t start[] = {22, 3, 1, 0, 0, 1, 0, 0, 0, 3, 3};
    memset(bytes, 0, 200);
    memcpy(bytes, start, sizeof(start));
    size_t at = sizeof(start) + 32;
    bytes[at] = 0;            // session
    put16(bytes + at + 1, 2); // ciphers
    put16(bytes + at + 3, 0x1301);
    bytes[at + 5] = 1; // compression
    put16(bytes + at + 7, size);
    memcpy(bytes + at + 9, extensions, size);
    len = at + 9 + size;
    put16(bytes + 3, len - 5);
    put16(bytes + 7, len - 9);
}

// With a server_name extension that holds `list`.
static enum hello_kind with_list(const void *list, size_t size)
{
    uint8_t extension[512] = {0};
    put16(extension + 2, size);
    memcpy(extension + 4, list, size);
    make_hello(extension, size + 4);
    return parse(bytes, len);
}

static void odd_names(void)
{
    static const uint8_t good[] = {0, 6, 0, 0, 3, 'a', '.', 'b'};
    is_int(with_list(good, sizeof(good)), HELLO_TLS, "a hello made by hand");
    is_str(h.name.text, "a.b", "its name");
    static const uint8_t two[] = {0, 12, 0, 0, 3, 'a', '.', 'b', 0, 0, 3, 'e', '.', 'v'};
    is_int(with_list(two, sizeof(two)), HELLO_BAD, "two names in the list");
    static const uint8_t other_type[] = {0, 6, 1, 0, 3, 'a', '.', 'b'};
    is_int(with_list(other_type, sizeof(other_type)), HELLO_BAD, "a name of another type");
    static const uint8_t nul[] = {0, 8, 0, 0, 5, 'a', '.', 'b', 0, 'c'};
    is_int(with_list(nul, sizeof(nul)), HELLO_BAD, "a name with a NUL");
    static const uint8_t empty[] = {0, 3, 0, 0, 0};
    is_int(with_list(empty, sizeof(empty)), HELLO_BAD, "an empty name");
    static const uint8_t dot[] = {0, 7, 0, 0, 4, 'a', '.', 'b', '.'};
    is_int(with_list(dot, sizeof(dot)), HELLO_TLS, "a root's dot");
    is_str(h.name.text, "a.b", "is taken off");
    static const uint8_t tail[] = {0, 6, 0, 0, 3, 'a', '.', 'b', 9};
    is_int(with_list(tail, sizeof(tail)), HELLO_BAD, "more behind the list");
    static const uint8_t far[] = {0, 6, 0, 0, 9, 'a', '.', 'b'};
    is_int(with_list(far, sizeof(far)), HELLO_BAD, "a name that is longer than its list");
    static const uint8_t twice[] = {0, 0, 0, 8, 0, 6, 0, 0, 3, 'a', '.', 'b',
                                    0, 0, 0, 8, 0, 6, 0, 0, 3, 'e', '.', 'v'};
    make_hello(twice, sizeof(twice));
    is_int(parse(bytes, len), HELLO_BAD, "the extension twice");
}

// Encrypted ClientHello (extension 0xfe0d): what can be seen is the outer name.
static void encrypted(void)
{
    static const uint8_t ech[] = {0xfe, 0x0d, 0, 4, 1, 2, 3, 4,   0,   0,
                                  0,    8,    0, 6, 0, 0, 3, 'a', '.', 'b'};
    make_hello(ech, sizeof(ech));
    is_int(parse(bytes, len), HELLO_TLS, "an encrypted hello");
    is_str(h.name.text, "a.b", "has its outer name");
}

static void odd_hellos(void)
{
    load("tls_curl");
    bytes[5] = 2;
    is_int(parse(bytes, len), HELLO_BAD, "a ServerHello");
    load("tls_curl");
    bytes[1] = 2;
    is_int(parse(bytes, len), HELLO_BAD, "a record of SSL 2");
    load("tls_curl");
    bytes[6] = 1;
    is_int(parse(bytes, len), HELLO_BAD, "65 KB are announced");
    load("tls_curl");
    bytes[8]--;
    is_int(parse(bytes, len), HELLO_BAD, "the record is longer than the message");
    is_int(parse(bytes, len - 1), HELLO_MORE, "cut where the message ends it is not said yet");
    load("tls_curl");
    put16(bytes + 3, len - 5 + 9);
    is_int(parse(bytes, len), HELLO_MORE, "more is to come in the record: nothing is said yet");
    load("tls_curl");
    put16(bytes + 3, 0x4001);
    is_int(parse(bytes, len), HELLO_BAD, "a record of more than 16 KiB");
    memset(bytes, 0, HELLO_MAX);
    static const uint8_t long_one[] = {22, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xfc};
    memcpy(bytes, long_one, sizeof(long_one));
    is_int(parse(bytes, HELLO_MAX - 1), HELLO_MORE, "a long one");
    is_int(parse(bytes, HELLO_MAX), HELLO_BAD, "that does not end in 16 KiB");
    is_int(parse("\x80\x2e\x01\x03\x01", 5), HELLO_OTHER, "SSL 2");
}

// ---- HTTP

static void http(enum hello_kind kind, const char *text, const char *name, const char *what)
{
    is_int(parse(text, strlen(text)), kind, "%s", what);
    if (name)
        is_str(h.name.text, name, "its name");
}

static void requests(void)
{
    http(HELLO_HTTP, "GET / HTTP/1.1\r\nHost: A.B\r\n\r\n", "a.b", "a request");
    http(HELLO_HTTP, "GET / HTTP/1.1\r\nhost:a.b:8080 \r\n\r\n", "a.b", "with a port");
    http(HELLO_HTTP, "GET / HTTP/1.0\r\n\r\n", "", "an old one without a name");
    http(HELLO_HTTP, "GET http://a.b/x HTTP/1.1\r\nHost: a.b\r\n\r\n", "a.b", "an absolute target");
    http(HELLO_HTTP, "GET / HTTP/1.1\r\nHost: a.b\r\n\r\nGET / HTTP/1.1\r\nHost: e.v\r\n\r\n",
         "a.b", "the first of two");
    http(HELLO_BAD, "CONNECT e.v:443 HTTP/1.1\r\nHost: a.b\r\n\r\n", NULL, "CONNECT, two hosts");
    http(HELLO_HTTP, "OPTIONS * HTTP/1.1\r\nHost: a.b\r\n\r\n", "a.b", "about the server");
    http(HELLO_MORE, "GET / HTTP/1.1\r\nHost: a.b\r\n", NULL, "a head without its end");
    http(HELLO_MORE, "GET", NULL, "a word");
}

static void ambiguous(void)
{
    static const char *const texts[] = {
        "GET / HTTP/1.1\r\nHost: a.b\r\nHost: e.v\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : a.b\r\n\r\n",
        "GET / HTTP/1.1\r\n Host: a.b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a.b\r\n folded: e.v\r\n\r\n",
        "GET / HTTP/1.1\nHost: a.b\n\n",
        "GET / HTTP/1.1\r\nX: y\rHost: e.v\r\nHost: a.b\r\n\r\n",
        "GET / HTTP/1.1\r\nX: y\nHost: e.v\r\nHost: a.b\r\n\r\n",
        "GET / HTTP/1.1\r\nX: \1\r\nHost: a.b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a.b@e.v\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a.b, e.v\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: [::1]\r\n\r\n",
        "GET / HTTP/1.1\r\nHost:\r\n\r\n",
        "GET http://e.v/ HTTP/1.1\r\nHost: a.b\r\n\r\n",
        "GET http://a.b@e.v/ HTTP/1.1\r\nHost: a.b\r\n\r\n",
        "GET https://a.b/ HTTP/1.1\r\nHost: a.b\r\n\r\n",
        "GET ftp://a.b/ HTTP/1.1\r\nHost: a.b\r\n\r\n",
        "GET  / HTTP/1.1\r\nHost: a.b\r\n\r\n",
        "GET / x HTTP/1.1\r\nHost: a.b\r\n\r\n",
        "GET\t/ HTTP/1.1\r\nHost: a.b\r\n\r\n",
        "GET / HTTP/1.2\r\nHost: a.b\r\n\r\n",
        "GET / HTTP/1.1 \r\nHost: a.b\r\n\r\n",
        "GET / http/1.1\r\nHost: a.b\r\n\r\n",
        "\r\nGET / HTTP/1.1\r\nHost: a.b\r\n\r\n",
        " GET / HTTP/1.1\r\nHost: a.b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a.b\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a.b\r\nContent-Length: 1, 1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a.b\r\nContent-Length: +1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a.b\r\nContent-Length: 0x1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a.b\r\nContent-Length: 9999999999999999\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a.b\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "GET / HTTP/1.0\r\nHost: a.b\r\nTransfer-Encoding: chunked\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a.b\r\nTransfer-Encoding: xchunked\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a.b\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a.b\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a.b\r\nno colon\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a..b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a.b:x\r\n\r\n",
        "CONNECT a.b/x HTTP/1.1\r\nHost: a.b\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        is_int(parse(texts[i], strlen(texts[i])), HELLO_BAD, "ambiguous: request %zu", i);
        ok(h.why != NULL, "and it says why");
    }
}

static void others(void)
{
    static const char *const texts[] = {
        "GET /\r\n",           // HTTP/0.9
        "EHLO me.example\r\n", //
        "PING\r\n",            //
        "*1\r\n$4\r\nPING\r\n",
        "OPTIONS rtsp://a.b/ RTSP/1.0\r\n\r\n",
        "PROXY TCP4 1.1.1.1 2.2.2.2 1 2\r\n",
        "\x10\x0c",
        "{\"id\":1}",
        "ThisIsAWordThatIsLongerThanAnyMethod",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        is_int(parse(texts[i], strlen(texts[i])), HELLO_OTHER, "another protocol: %zu", i);
    is_int(parse("0032git-upload-pack /p\0host=a.b\0", 32), HELLO_OTHER, "git");
    is_int(parse("AMQP\0\0\x9\x1", 8), HELLO_OTHER, "AMQP");
    memset(bytes, 'x', HELLO_MAX);
    memcpy(bytes, "GET /", 5);
    is_int(parse(bytes, HELLO_MAX - 1), HELLO_MORE, "a long target");
    is_int(parse(bytes, HELLO_MAX), HELLO_BAD, "that never ends");
}

int main(void)
{
    is_int(parse("", 0), HELLO_MORE, "nothing");
    real_clients();
    split_over_records();
    odd_names();
    encrypted();
    odd_hellos();
    requests();
    ambiguous();
    others();
    return tap_done();
}
