// SPDX-License-Identifier: Apache-2.0
// A request of the HTTP client: curl's options, and its callbacks, which run inside curl.
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/net/http_client_internal.h"

#define CONNECT_MS  10000
#define BUFFER_SIZE (128L * 1024)

// Return whether the caller still gets events: neither the fetch nor the client has been cancelled.
static bool is_live(const struct http_fetch *f)
{
    return !f->ended && !f->canceled && !err_is(&f->e);
}

// ---- the answer's head

static void head_clear(struct http_fetch *f)
{
    buf_clear(&f->text);
    f->count = 0;
}

// Add "Name: value\r\n" to `text` as two strings. curl has joined folded lines.
static void head_add(struct http_fetch *f, const char *line, size_t len)
{
    const char *colon = memchr(line, ':', len);
    if (!colon)
        return;
    const char *value = colon + 1;
    const char *end = line + len;
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    while (end > value && strchr(" \t\r\n", end[-1]))
        end--;
    if (f->count % 16 == 0)
        f->at = xrealloc(f->at, (f->count + 16) * 2 * sizeof *f->at);
    f->at[2 * f->count] = f->text.len;
    buf_add(&f->text, line, (size_t)(colon - line));
    buf_addc(&f->text, '\0');
    f->at[2 * f->count + 1] = f->text.len;
    buf_add(&f->text, value, (size_t)(end - value));
    buf_addc(&f->text, '\0');
    f->count++;
}

static void tell_head(struct http_fetch *f, int status)
{
    struct http_header *headers auto_free = xcalloc(f->count, sizeof *headers);
    for (size_t i = 0; i < f->count; i++)
        headers[i] =
            (struct http_header){f->text.data + f->at[2 * i], f->text.data + f->at[2 * i + 1]};
    const char *url = NULL;
    curl_easy_getinfo(f->easy, CURLINFO_EFFECTIVE_URL, &url);
    f->headed = true;
    if (f->events.on_head)
        f->events.on_head(status, headers, f->count, url ? url : "", f->ctx);
}

static bool is_redirect(const struct http_fetch *f, long status)
{
    if (!f->follows || status < 300 || status > 399 || status == 304)
        return false;
    for (size_t i = 0; i < f->count; i++)
        if (strcasecmp(f->text.data + f->at[2 * i], "Location") == 0)
            return true;
    return false;
}

// curl passes the status line, each header, the empty line, and trailers after the body.
static size_t on_header(char *line, size_t size, size_t count, void *ctx)
{
    struct http_fetch *f = ctx;
    size_t len = size * count;
    if (!is_live(f))
        return 0;
    if (f->headed)
        return len;
    if (f->text.len + len > LIMIT_HTTP_HEAD_BYTES) {
        err_set(&f->e, ERR_TOO_LARGE, "the head of the server's answer is longer than %d bytes",
                LIMIT_HTTP_HEAD_BYTES);
        return 0;
    }
    if (len >= 5 && memcmp(line, "HTTP/", 5) == 0) {
        head_clear(f);
    } else if (len > 2) {
        head_add(f, line, len);
    } else {
        long status = 0;
        curl_easy_getinfo(f->easy, CURLINFO_RESPONSE_CODE, &status);
        if (status >= 200 && !is_redirect(f, status))
            tell_head(f, (int)status);
    }
    return len;
}

// ---- bodies

static size_t on_write(char *data, size_t size, size_t count, void *ctx)
{
    struct http_fetch *f = ctx;
    size_t len = size * count;
    if (!is_live(f))
        return 0;
    if (!f->headed || !f->events.on_data || f->events.on_data(data, len, f->ctx))
        return len;
    if (!is_live(f))
        return 0;
    f->download_paused = true;
    return CURL_WRITEFUNC_PAUSE;
}

static size_t on_read(char *into, size_t size, size_t count, void *ctx)
{
    struct http_fetch *f = ctx;
    if (!is_live(f))
        return CURL_READFUNC_ABORT;
    ssize_t n = f->read_body(into, size * count, f->ctx);
    if (!is_live(f) || n == HTTP_READ_ABORT) {
        err_set(&f->e, ERR_CANCELED, "the body of the request ended early: its source failed");
        return CURL_READFUNC_ABORT;
    }
    if (n != HTTP_READ_PAUSE)
        return (size_t)n;
    f->upload_paused = true;
    return CURL_READFUNC_PAUSE;
}

// ---- connections

static int refuse(struct http_fetch *f, const char *what)
{
    return err_set(&f->e, ERR_DENIED, "connecting to %s is not allowed", what);
}

static void print_address(const struct sockaddr *address, char out[INET6_ADDRSTRLEN])
{
    const void *ip = address->sa_family == AF_INET6
                         ? (const void *)&((const struct sockaddr_in6 *)address)->sin6_addr
                         : (const void *)&((const struct sockaddr_in *)address)->sin_addr;
    bool is_ip = address->sa_family == AF_INET || address->sa_family == AF_INET6;
    if (!is_ip || !inet_ntop(address->sa_family, ip, out, INET6_ADDRSTRLEN))
        snprintf(out, INET6_ADDRSTRLEN, "that address");
}

static curl_socket_t on_open_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *address)
{
    (void)purpose;
    struct http_fetch *f = ctx;
    if (f->allow_address && !f->allow_address(&address->addr, f->ctx)) {
        char text[INET6_ADDRSTRLEN];
        print_address(&address->addr, text);
        refuse(f, text); // one forbidden address of a name is enough
        return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

// Check the peer again: a pooled connection may have been opened under other rules.
static bool is_allowed_peer(struct http_fetch *f, const char *ip, int port)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    if (inet_pton(AF_INET, ip, &v4.sin_addr) == 1)
        return f->allow_address((const struct sockaddr *)&v4, f->ctx);
    if (inet_pton(AF_INET6, ip, &v6.sin6_addr) == 1)
        return f->allow_address((const struct sockaddr *)&v6, f->ctx);
    return false;
}

// Runs just before a request goes out on a connection, new or pooled, and for each repetition.
static int on_prerequest(void *ctx, char *ip, char *local_ip, int port, int local_port)
{
    (void)local_ip;
    (void)local_port;
    struct http_fetch *f = ctx;
    if (!is_live(f)) // cancelled while the connection was made
        return CURL_PREREQFUNC_ABORT;
    long redirects = 0;
    curl_easy_getinfo(f->easy, CURLINFO_REDIRECT_COUNT, &redirects);
    if (!f->is_safe && f->sent_at == redirects) {
        err_set(&f->e, ERR_UNAVAILABLE,
                "the connection was lost after the request was sent; it may have been carried out");
        return CURL_PREREQFUNC_ABORT;
    }
    f->sent_at = redirects;
    if (f->allow_address && *ip && !is_allowed_peer(f, ip, port)) {
        refuse(f, ip);
        return CURL_PREREQFUNC_ABORT;
    }
    if (f->events.on_sent && is_live(f))
        f->events.on_sent(f->ctx);
    return CURL_PREREQFUNC_OK;
}

// ---- options

#define SET(f, option, value) curl_easy_setopt((f)->easy, CURLOPT_##option, (value))

static bool is_clean(const char *s)
{
    return !strpbrk(s, "\r\n");
}

static void add_header(struct http_fetch *f, const struct http_header *h)
{
    if (!is_clean(h->name) || !is_clean(h->value)) {
        err_set(&f->e, ERR_INVALID, "the name or the value of a header holds a line break");
        return;
    }
    // curl omits a header with nothing after the colon; a semicolon stands for an empty value.
    char *line auto_free =
        *h->value ? str_printf("%s: %s", h->name, h->value) : str_printf("%s;", h->name);
    f->header_list = curl_slist_append(f->header_list, line);
}

static void setup_headers(struct http_fetch *f, const struct http_fetch_opts *opts)
{
    for (size_t i = 0; i < opts->header_count; i++)
        add_header(f, &opts->headers[i]);
    // Remove what curl adds: no waiting for 100, and no Content-Type that the caller did not set.
    f->header_list = curl_slist_append(f->header_list, "Expect:");
    if (!http_header_get(opts->headers, opts->header_count, "Content-Type"))
        f->header_list = curl_slist_append(f->header_list, "Content-Type:");
    SET(f, HTTPHEADER, f->header_list);
}

static void setup_method(struct http_fetch *f, const struct http_fetch_opts *opts)
{
    const char *method = opts->method ? opts->method : "GET";
    bool is_get = str_eq(method, "GET");
    bool is_head = str_eq(method, "HEAD");
    f->is_safe = is_get || is_head;
    if (opts->read_body) {
        SET(f, UPLOAD, 1L);
        SET(f, READFUNCTION, on_read);
        SET(f, READDATA, f);
        SET(f, INFILESIZE_LARGE, (curl_off_t)opts->body_total);
    } else if (opts->body || str_eq(method, "POST")) {
        SET(f, POST, 1L);
        SET(f, POSTFIELDSIZE_LARGE, (curl_off_t)opts->body_len);
        SET(f, COPYPOSTFIELDS, opts->body ? opts->body : "");
    } else if (is_head) {
        SET(f, NOBODY, 1L);
    }
    if (!is_get && !is_head)
        SET(f, CUSTOMREQUEST, method);
    else if (opts->read_body || opts->body)
        SET(f, CUSTOMREQUEST, method);
}

// Connect to `address`, regardless of the host and port in the URL or in a redirect.
static void setup_connect_to(struct http_fetch *f, const char *address)
{
    char *rule auto_free = str_printf("::%s", address);
    f->connect_list = curl_slist_append(NULL, rule);
    SET(f, CONNECT_TO, f->connect_list);
}

static void setup_connection(struct http_fetch *f, const struct http_fetch_opts *opts)
{
    if (opts->connect_to)
        setup_connect_to(f, opts->connect_to);
    if (opts->ca_file) // the system's directory of authorities stays in use
        SET(f, CAINFO, opts->ca_file);
    SET(f, OPENSOCKETFUNCTION, on_open_socket);
    SET(f, OPENSOCKETDATA, f);
    SET(f, PREREQFUNCTION, on_prerequest);
    SET(f, PREREQDATA, f);
    if (opts->unix_socket) {
        SET(f, UNIX_SOCKET_PATH, opts->unix_socket);
        SET(f, NOPROXY, "*");
    } else {
        SET(f, TCP_NODELAY, 1L);
        SET(f, TCP_KEEPALIVE, 1L);
    }
    if (opts->allow_address) // a proxy would connect in our place, past the check of addresses
        SET(f, NOPROXY, "*");
}

static void setup_limits(struct http_fetch *f, const struct http_fetch_opts *opts)
{
    uint64_t connect_ms = opts->connect_timeout_ms ? opts->connect_timeout_ms : CONNECT_MS;
    SET(f, CONNECTTIMEOUT_MS, (long)connect_ms);
    SET(f, TIMEOUT_MS, (long)opts->total_timeout_ms);
    SET(f, FOLLOWLOCATION, opts->max_redirects > 0 ? 1L : 0L);
    SET(f, MAXREDIRS, (long)opts->max_redirects);
    SET(f, PROTOCOLS_STR, "http,https");
    SET(f, REDIR_PROTOCOLS_STR, "http,https");
    f->follows = opts->max_redirects > 0;
}

void http_fetch_setup(struct http_fetch *f, const struct http_fetch_opts *opts)
{
    f->easy = curl_easy_init();
    if (!f->easy)
        abort();
    f->sent_at = -1;
    f->read_body = opts->read_body;
    f->allow_address = opts->allow_address;
    SET(f, URL, opts->url);
    SET(f, PRIVATE, f);
    SET(f, ERRORBUFFER, f->curl_error);
    SET(f, NOSIGNAL, 1L);
    SET(f, QUICK_EXIT, 1L); // do not wait for an abandoned name look-up
    SET(f, HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(f, BUFFERSIZE, BUFFER_SIZE);
    SET(f, UPLOAD_BUFFERSIZE, BUFFER_SIZE);
    SET(f, HEADERFUNCTION, on_header);
    SET(f, HEADERDATA, f);
    SET(f, WRITEFUNCTION, on_write);
    SET(f, WRITEDATA, f);
    setup_method(f, opts);
    setup_connection(f, opts);
    setup_limits(f, opts);
    setup_headers(f, opts);
}

void http_fetch_free(struct http_fetch *f)
{
    if (f->easy)
        curl_easy_cleanup(f->easy);
    curl_slist_free_all(f->header_list);
    curl_slist_free_all(f->connect_list);
    buf_fini(&f->text);
    free(f->at);
    free(f);
}

// ---- the outcome

// Return the errno of a failed connect; 0 when curl does not know it.
static int errno_of(const struct http_fetch *f)
{
    long sys = 0;
    curl_easy_getinfo(f->easy, CURLINFO_OS_ERRNO, &sys);
    return (int)sys;
}

static enum err_code code_of(const struct http_fetch *f, CURLcode code)
{
    int sys = code == CURLE_COULDNT_CONNECT ? errno_of(f) : 0;
    switch ((int)code) {
    case CURLE_OPERATION_TIMEDOUT:
        return ERR_TIMEOUT;
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
    case CURLE_SSL_CACERT_BADFILE:
        return ERR_INVALID;
    case CURLE_COULDNT_RESOLVE_HOST:
        return ERR_NOT_FOUND;
    case CURLE_COULDNT_CONNECT:
        return sys == 0 || sys == ECONNREFUSED || sys == ENOENT ? ERR_REFUSED : ERR_UNAVAILABLE;
    case CURLE_PEER_FAILED_VERIFICATION:
        return ERR_UNTRUSTED;
    case CURLE_SSL_CONNECT_ERROR: // OpenSSL's words for a record that is not TLS
        return strstr(f->curl_error, "wrong version number") ? ERR_NOT_TLS : ERR_UNAVAILABLE;
    case CURLE_TOO_MANY_REDIRECTS:
        return ERR_LIMIT;
    case CURLE_OUT_OF_MEMORY:
    case CURLE_FAILED_INIT:
        return ERR_INTERNAL;
    default:
        return ERR_UNAVAILABLE;
    }
}

void http_fetch_result(const struct http_fetch *f, CURLcode code, struct err *e)
{
    if (f->canceled)
        err_set(e, ERR_CANCELED, "the request was canceled");
    else if (err_is(&f->e))
        *e = f->e;
    else if (code == CURLE_GOT_NOTHING)
        err_set(e, ERR_UNAVAILABLE, "the connection ended before the answer");
    else if (code != CURLE_OK)
        err_set(e, code_of(f, code), "%s",
                *f->curl_error ? f->curl_error : curl_easy_strerror(code));
}
