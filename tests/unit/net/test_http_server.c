// SPDX-License-Identifier: Apache-2.0
// The HTTP server's messages over a real unix socket: what peers send, and what they get.
#include "sandbox-backend/base/limits.h"
#include "tests/lib/net/http_peer.h"

static void stream_pieces(struct http_request *req)
{
    http_response_header(req, "X-Injected", "a\r\nSet-Cookie: b");
    http_response_begin(req, 200, -1);
    http_response_write(req, "one", 3);
    http_response_write(req, "twotwo", 6);
    http_response_end(req);
}

static void answer_query(struct http_request *req)
{
    bool bad;
    const char *v = http_request_query(req, "a b", &bad);
    if (bad || !v)
        v = bad ? "bad" : "none";
    http_respond(req, 200, "text/plain", v, strlen(v));
}

static void on_request(struct http_request *req, void *ctx)
{
    (void)ctx;
    const char *p = http_request_path(req);
    if (str_eq(p, "/pieces"))
        stream_pieces(req);
    else if (str_eq(p, "/query"))
        answer_query(req);
    else
        peer_answer(req);
}

static void test_answers(void)
{
    is_str(peer_ask("POST /echo HTTP/1.1\r\n" PEER_HOST "Content-Length: 5\r\n\r\nhello"),
           "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: 5\r\n"
           "\r\nhello",
           "an answer with a length");
    is_str(peer_ask("GET /pieces HTTP/1.1\r\n" PEER_HOST "\r\n"),
           "HTTP/1.1 200 OK\r\nX-Injected: a  Set-Cookie: b\r\nTransfer-Encoding: chunked\r\n"
           "\r\n3\r\none\r\n6\r\ntwotwo\r\n0\r\n\r\n",
           "a chunked answer, and a value cannot end its line");
    is_str(peer_ask("HEAD /pieces HTTP/1.1\r\n" PEER_HOST "\r\n"),
           "HTTP/1.1 200 OK\r\nX-Injected: a  Set-Cookie: b\r\nTransfer-Encoding: chunked\r\n\r\n",
           "HEAD of a chunked answer");
    is_str(peer_ask("HEAD /echo HTTP/1.1\r\n" PEER_HOST "\r\n"),
           "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: 0\r\n\r\n",
           "HEAD of a whole answer");
    is_str(peer_ask("GET /empty HTTP/1.1\r\n" PEER_HOST "\r\n"), "HTTP/1.1 204 No Content\r\n\r\n",
           "204 has no length");
    is_str(peer_ask("GET /pieces HTTP/1.0\r\n\r\n"),
           "HTTP/1.1 200 OK\r\nX-Injected: a  Set-Cookie: b\r\nConnection: close\r\n\r\nonetwotwo",
           "HTTP/1.0 gets its body ended by the connection");
    is_str(peer_ask("GET /no/such%20thing HTTP/1.1\r\n" PEER_HOST "\r\n"),
           "HTTP/1.1 404 Not Found\r\nX-Content-Type-Options: nosniff\r\nContent-Type: "
           "application/json; charset=utf-8\r\nContent-Length: 50\r\n\r\n"
           "{\"code\":404,\"message\":\"nothing at /no/such thing\"}" +
               0,
           "an error, with the decoded path");
    is_str(peer_ask("POST /echo HTTP/1.1\r\n" PEER_HOST "Transfer-Encoding: chunked\r\n\r\n"
                    "3;ext=1\r\nabc\r\n2\r\nde\r\n0\r\nX-Trailer: 1\r\n\r\n"),
           "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: 5\r\n"
           "\r\nabcde",
           "a chunked request with extension and trailer");
}

static void test_targets(void)
{
    ok(str_ends(peer_ask("GET /query?x=1&a+b=c%20d+e&a%20b=2 HTTP/1.1\r\n" PEER_HOST "\r\n"),
                "\r\n\r\nc d e"),
       "a query's names and values are decoded");
    ok(str_ends(peer_ask("GET /query?a%20b HTTP/1.1\r\n" PEER_HOST "\r\n"),
                "Content-Length: 0\r\n\r\n"),
       "a query parameter without a value is empty");
    ok(str_ends(peer_ask("GET /query?a%20bc=1 HTTP/1.1\r\n" PEER_HOST "\r\n"), "none"),
       "an absent one");
    ok(str_ends(peer_ask("GET /query?a%20b=x%00y HTTP/1.1\r\n" PEER_HOST "\r\n"), "bad"),
       "NUL in a value");
    ok(str_ends(peer_ask("GET http://h/query?a%20b=1 HTTP/1.1\r\n" PEER_HOST "\r\n"), "\r\n1"),
       "an absolute target");
    is_int(peer_status_of(peer_ask("GET /a%00b HTTP/1.1\r\n" PEER_HOST "\r\n")), 400,
           "NUL in the path");
}

static void test_malformed(void)
{
    static const struct {
        int status;
        const char *what, *request;
    } CASES[] = {
        {400, "both lengths",
         "POST /echo HTTP/1.1\r\n" PEER_HOST
         "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
        {400, "both lengths, the other way",
         "POST /echo HTTP/1.1\r\n" PEER_HOST
         "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n"},
        {400, "two lengths",
         "POST /echo HTTP/1.1\r\n" PEER_HOST "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc"},
        {400, "a list of lengths",
         "POST /echo HTTP/1.1\r\n" PEER_HOST "Content-Length: 3, 3\r\n\r\nabc"},
        {400, "a negative length",
         "POST /echo HTTP/1.1\r\n" PEER_HOST "Content-Length: -1\r\n\r\n"},
        {400, "an empty length", "POST /echo HTTP/1.1\r\n" PEER_HOST "Content-Length: \r\n\r\n"},
        {400, "a huge length",
         "POST /echo HTTP/1.1\r\n" PEER_HOST "Content-Length: 99999999999999999999\r\n\r\n"},
        {501, "another transfer coding",
         "POST /echo HTTP/1.1\r\n" PEER_HOST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"},
        {400, "chunked and HTTP/1.0",
         "POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
        {400, "no Host", "GET /empty HTTP/1.1\r\n\r\n"},
        {400, "two Hosts", "GET /empty HTTP/1.1\r\n" PEER_HOST PEER_HOST "\r\n"},
        {400, "a folded header", "GET /empty HTTP/1.1\r\n" PEER_HOST "X-A: b\r\n c\r\n\r\n"},
        {400, "a first header that is folded", "GET /empty HTTP/1.1\r\n " PEER_HOST "\r\n"},
        {400, "a blank before the colon", "GET /empty HTTP/1.1\r\nHost : x\r\n\r\n"},
        {400, "a header without a name", "GET /empty HTTP/1.1\r\n" PEER_HOST ": x\r\n\r\n"},
        {400, "a header without a colon", "GET /empty HTTP/1.1\r\n" PEER_HOST "abc\r\n\r\n"},
        {400, "bare LF", "GET /empty HTTP/1.1\n" PEER_HOST "\r\n"},
        {400, "bare LF after a header", "GET /empty HTTP/1.1\r\nHost: x\n\r\n"},
        {400, "bare CR", "GET /empty HTTP/1.1\r\nHost: x\rX-Y: z\r\n\r\n"},
        {400, "a control character", "GET /empty HTTP/1.1\r\n" PEER_HOST "X: a\001b\r\n\r\n"},
        {400, "nonsense", "\001\002\003\004\r\n\r\n"},
        {400, "a TLS hello", "\026\003\001\002"},
        {400, "HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
        {505, "HTTP/3.7", "GET /empty HTTP/3.7\r\n" PEER_HOST "\r\n"},
        {400, "a bad chunk",
         "POST /echo HTTP/1.1\r\n" PEER_HOST "Transfer-Encoding: chunked\r\n\r\nzz\r\n"},
        {413, "a body too large for its taker",
         "POST /echo HTTP/1.1\r\n" PEER_HOST "Content-Length: 1001\r\n\r\nabc"},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        int fd = peer_dial();
        peer_say(fd, CASES[i].request);
        const char *answer = peer_hear(fd, NULL);
        is_int(peer_status_of(answer), CASES[i].status, "%s", CASES[i].what);
        ok(strstr(answer, "Connection: close\r\n") && !strstr(answer + 1, "HTTP/1.1 "),
           "and the connection ends");
        close(fd);
    }
    is_int(peer_status_of(
               peer_ask("\r\n\r\nGET /empty HTTP/1.1\r\n" PEER_HOST "X-Empty:\r\nX-E2: \r\n\r\n")),
           204, "empty lines in front and empty values are fine");
}

static void test_large_heads(void)
{
    struct buf request auto_buf = BUF_INIT;
    buf_adds(&request, "GET /empty HTTP/1.1\r\n" PEER_HOST "X-Long: ");
    while (request.len < LIMIT_HTTP_HEAD_BYTES - 4)
        buf_addc(&request, 'a');
    buf_adds(&request, "\r\n\r\n");
    is_int(peer_status_of(peer_ask(buf_str(&request))), 204, "a head of exactly the limit");
    buf_consume(&request, 0);
    request.data[request.len - 4] = '\0';
    request.len -= 4;
    buf_adds(&request, "a\r\n\r\n");
    is_int(peer_status_of(peer_ask(buf_str(&request))), 431, "a head of one byte more");
    buf_clear(&request);
    buf_adds(&request, "GET /empty HTTP/1.1\r\n" PEER_HOST);
    for (int i = 1; i < HTTP_HEADERS_MAX; i++)
        buf_printf(&request, "X-%d: 1\r\n", i);
    size_t len = request.len;
    buf_adds(&request, "\r\n");
    is_int(peer_status_of(peer_ask(buf_str(&request))), 204, "as many headers as there may be");
    request.len = len;
    buf_adds(&request, "X-Last: 1\r\n\r\n");
    is_int(peer_status_of(peer_ask(buf_str(&request))), 431, "one header too many");
}

static void test_split_anywhere(void)
{
    static const char REQUEST[] =
        "POST /echo HTTP/1.1\r\n" PEER_HOST "Transfer-Encoding: chunked\r\n\r\n"
        "3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n"
        "POST /echo HTTP/1.1\r\n" PEER_HOST "Content-Length: 4\r\n\r\nwxyz";
    int good = 0;
    for (size_t i = 1; i < sizeof REQUEST - 1; i++) {
        int fd = peer_dial();
        peer_say_n(fd, REQUEST, i);
        peer_turn();
        peer_say(fd, REQUEST + i);
        const char *answer = peer_hear(fd, "wxyz");
        bool fine = strstr(answer, "abc0123456789") && str_ends(answer, "wxyz");
        good += fine;
        if (!fine)
            printf("# split at %zu: %s\n", i, answer);
        close(fd);
    }
    is_int(good, sizeof REQUEST - 2, "two requests split at every byte");
    int fd = peer_dial();
    for (size_t i = 0; i < sizeof REQUEST - 1; i++) {
        peer_say_n(fd, REQUEST + i, 1);
        peer_turn();
    }
    ok(str_ends(peer_hear(fd, "wxyz"), "wxyz"), "and byte by byte");
    close(fd);
}

int main(void)
{
    peer_open(&(struct http_server_opts){.on_request = on_request});
    test_answers();
    test_targets();
    test_malformed();
    test_large_heads();
    test_split_anywhere();
    peer_stop();
    peer_close();
    return tap_done();
}
