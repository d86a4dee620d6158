// SPDX-License-Identifier: Apache-2.0
// Fuzz the head of a hostile guest's request at the egress proxy. A secret's value goes, in every
// encoding, only over TLS, only to the secret's hosts, and only into the parts of a request that
// may have it. No placeholder leaves. What egress sends is exactly one request for the connection's
// host, also to another parser, and has the right length. All encodings that it put in are known to
// the mask.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sandbox-backend/base/str.h"
#include "sandbox-backend/egress/judge.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define VALUE_A "sk-live/9hT3+wQ7"
#define VALUE_B "ghp_Zz81kVvR2m"
#define TOKEN_A "CUBBY_SECRET_0a1b2c3d4e5f60718293"
#define TOKEN_B "CUBBY_SECRET_f0e1d2c3b4a596877869"

static const char SECRETS[] =
    "[{\"name\": \"A\", \"placeholder\": \"" TOKEN_A "\", \"value\": \"" VALUE_A
    "\", \"hosts\": [\"api.example.com\"]}, {\"name\": \"B\", \"placeholder\": \"" TOKEN_B
    "\", \"value\": \"" VALUE_B "\", \"hosts\": [\"*.other.example\"]}]";
static const char *const NAMES[] = {"api.example.com", "x.other.example", "evil.example",
                                    "9.9.9.9"};

static struct secrets secrets;

static void require(bool promise)
{
    if (!promise)
        abort();
}

static bool holds(const void *text, size_t len, const char *word)
{
    return len && memmem(text, len, word, strlen(word)) != NULL;
}

static bool holds_value(const char *text, size_t len, const struct secret *secret)
{
    return holds(text, len, secret->value) ||
           (secret->percent && holds(text, len, secret->percent));
}

// In text that goes where no value is put in.
static void require_none(const char *text, size_t len)
{
    for (size_t i = 0; i < secrets.count; i++)
        require(!holds_value(text, len, &secrets.items[i]) &&
                !holds(text, len, secrets.items[i].placeholder));
}

static void require_mine(const struct judge *j, const char *text, size_t len)
{
    for (size_t i = 0; i < secrets.count; i++) {
        require(!holds(text, len, secrets.items[i].placeholder));
        if (holds_value(text, len, &secrets.items[i]))
            require(j->tls && secret_is_for(&secrets.items[i], j->name));
    }
}

// What "Basic <code>" says; empty when it is none.
static void decode(const char *value, struct buf *plain)
{
    static const char BASIC[] = "Basic ";
    buf_clear(plain);
    if (strncasecmp(value, BASIC, strlen(BASIC)) != 0)
        return;
    value += strlen(BASIC);
    value += strspn(value, " ");
    if (!base64_decode(plain, value, strlen(value)))
        buf_clear(plain);
}

// The guest has guessed a value, and hidden it.
static bool is_guessed(const struct http_parser *p)
{
    struct buf plain auto_buf = BUF_INIT;
    bool found = false;
    for (size_t i = 0; i < p->count; i++) {
        decode(p->headers[i].value, &plain);
        for (size_t k = 0; k < secrets.count; k++)
            found = found || holds_value(plain.data, plain.len, &secrets.items[k]);
    }
    return found;
}

static void check_header(const struct judge *j, const struct http_header *h)
{
    struct buf plain auto_buf = BUF_INIT;
    require_none(h->name, strlen(h->name));
    if (!http_name_is(h->name, "Authorization"))
        return;
    decode(h->value, &plain); // what is no code before a value is in it, may be one then
    for (size_t i = 0; i < secrets.count; i++)
        if (holds_value(plain.data, plain.len, &secrets.items[i]))
            require(j->tls && secret_is_for(&secrets.items[i], j->name) && j->code->len &&
                    holds(h->value, strlen(h->value), buf_str(j->code)));
}

// As its reader understands it.
static void check_head(const struct judge *j, const struct http_parser *p,
                       const struct http_parser *again)
{
    const char *host = http_header_get(again->headers, again->count, "Host");
    const char *code = http_header_get(again->headers, again->count, "Accept-Encoding");
    require(host && strncasecmp(host + (*host == '['), j->name, strlen(j->name)) == 0);
    require_none(host, strlen(host));
    require(again->target[0] == '/' || str_eq(again->target, "*"));
    require_none(again->target, strcspn(again->target, "?"));
    require(again->length == p->length && again->keep_alive >= p->keep_alive);
    require(llhttp_get_method((llhttp_t *)(uintptr_t)&again->llhttp) ==
            llhttp_get_method((llhttp_t *)(uintptr_t)&p->llhttp));
    if (j->tls && secrets_have_any_for(&secrets, j->name))
        require(code && str_eq(code, "identity"));
    for (size_t i = 0; i < again->count; i++)
        check_header(j, &again->headers[i]);
}

static void check_sent(const struct judge *j, const struct http_parser *p, const struct buf *out)
{
    struct http_parser again;
    const char *at = out->data;
    size_t left = out->len;
    require_mine(j, out->data, out->len);
    http_parser_init(&again, HTTP_REQUEST);
    enum http_event event = http_parser_step(&again, &at, &left);
    // What is added, and what a value is longer by, may be more than this reader takes.
    if (event == HTTP_EV_HEAD)
        check_head(j, p, &again);
    require(event == HTTP_EV_HEAD ? left == 0 : again.bad_status == 431);
    http_parser_fini(&again);
}

static void check_request(const struct judge *like, const struct http_parser *p)
{
    struct refusal r = {0};
    struct buf out auto_buf = BUF_INIT, code auto_buf = BUF_INIT;
    struct judge j = *like;
    j.code = &code;
    if (is_guessed(p))
        return;
    if (judge_request(&j, p, &out, &r)) {
        check_sent(&j, p, &out);
        return;
    }
    require(r.status >= 400 && r.status < 500 && r.why[0]);
    for (size_t i = 0; i < secrets.count; i++)
        require(!holds_value(r.why, strlen(r.why), &secrets.items[i]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!secrets.count) {
        struct err e = ERR_INIT;
        json_t *list = json_loads(SECRETS, 0, NULL);
        require(secrets_from_json(&secrets, list, &e) == 0);
        json_decref(list);
    }
    for (size_t i = 0; i < secrets.count; i++)
        if (holds_value((const char *)data, size, &secrets.items[i]))
            return 0;
    if (size < 1)
        return 0;
    const struct judge j = {.name = NAMES[data[0] & 3],
                            .port = data[0] & 8 ? 8443 : 443,
                            .tls = data[0] & 4,
                            .secrets = &secrets};
    const char *at = (const char *)data + 1;
    size_t left = size - 1;
    struct http_parser p;
    http_parser_init(&p, HTTP_REQUEST);
    for (enum http_event event = HTTP_EV_MORE; event != HTTP_EV_BAD;) {
        event = http_parser_step(&p, &at, &left);
        if (event == HTTP_EV_MORE)
            break;
        if (event == HTTP_EV_HEAD)
            check_request(&j, &p);
        if (event == HTTP_EV_END)
            http_parser_next(&p);
    }
    http_parser_fini(&p);
    return 0;
}
