// SPDX-License-Identifier: Apache-2.0
// A hostile guest's request at the egress proxy: a secret's value goes only over TLS and only to
// its hosts, no placeholder leaves, and what is sent is one request that another reader sees as one
// too.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/egress/judge.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define VALUE_A "sk-live-9hT3wQ7"
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

static void check_sent(const struct judge *j, const struct buf *out)
{
    struct http_parser again;
    const char *at = out->data;
    size_t left = out->len;
    for (size_t i = 0; i < secrets.count; i++) {
        require(!holds(out->data, out->len, secrets.items[i].placeholder));
        if (holds(out->data, out->len, secrets.items[i].value))
            require(j->tls && secret_is_for(&secrets.items[i], j->name));
    }
    http_parser_init(&again, HTTP_REQUEST);
    enum http_event event = http_parser_step(&again, &at, &left);
    // What is added may be one header more than this reader takes.
    require(event == HTTP_EV_HEAD ? left == 0 : again.bad_status == 431);
    http_parser_fini(&again);
}

static void check_request(const struct judge *j, const struct http_parser *p)
{
    struct refusal r = {0};
    struct buf out = BUF_INIT;
    if (judge_request(j, p, &out, &r))
        check_sent(j, &out);
    else
        require(r.status >= 400 && !holds(r.why, strlen(r.why), VALUE_A) &&
                !holds(r.why, strlen(r.why), VALUE_B));
    buf_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!secrets.count) {
        struct err e = ERR_INIT;
        json_t *list = json_loads(SECRETS, 0, NULL);
        require(secrets_from_json(&secrets, list, &e) == 0);
        json_decref(list);
    }
    if (size < 1 || holds(data, size, VALUE_A) || holds(data, size, VALUE_B))
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
