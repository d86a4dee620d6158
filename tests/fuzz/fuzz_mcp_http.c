// SPDX-License-Identifier: Apache-2.0
// Fuzz the head and body of an HTTP request to MCP: lines "Name: value" up to an empty line, then
// JSON. The parsed headers must have the properties that their users rely on.
#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <stdint.h>
#include <string.h>

#include "mcp-server/web/web_head.h"
#include "mcp-server/web/web_mirror.h"
#include "mcp-server/web/web_origin.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define HEADERS_MAX 32

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char SCHEMA[] = "{\"properties\":{\"a\":{\"x-mcp-header\":\"A\"},"
                             "\"o\":{\"properties\":{\"b\":{\"x-mcp-header\":\"B\"}}}}}";

// Cuts `text` up; returns the body.
static char *read_headers(char *text, struct http_header *all, size_t *count)
{
    *count = 0;
    while (*text && *text != '\n' && *count < HEADERS_MAX) {
        char *end = text + strcspn(text, "\n");
        char *next = *end ? end + 1 : end;
        *end = '\0';
        char *colon = strchr(text, ':');
        if (colon) {
            *colon = '\0';
            all[(*count)++] = (struct http_header){text, colon + 1 + strspn(colon + 1, " \t")};
        }
        text = next;
    }
    return *text ? text + 1 : text;
}

static void check_gate(const struct web_head *h)
{
    static const struct config CONFIG = {.public_url = "https://mcp.example/x"};
    struct sockaddr_storage bound = {.ss_family = AF_INET};
    struct web_origin g;
    web_origin_init(&g, &CONFIG, &bound);
    bool host = web_origin_takes_host(&g, h->host);
    assert(!host || (h->host && *h->host));
    bool origin = web_origin_takes_origin(&g, h->origin);
    assert(!origin || !h->origin || strchr(h->origin, ':'));
    web_origin_fini(&g);
}

static void check_values(const struct web_head *h)
{
    struct buf decoded auto_buf = BUF_INIT;
    unsigned stream, event;
    for (size_t i = 0; i < h->count; i++) {
        assert(web_head_accept(h->all[i].value) <= (WEB_JSON | WEB_EVENTS));
        if (web_mirror_decode(h->all[i].value, &decoded))
            assert(decoded.len == 0 || utf8_is_valid(decoded.data, decoded.len));
        if (!web_head_event_id(h->all[i].value, &stream, &event))
            continue;
        char *again auto_free = str_printf("%u.%u", stream, event);
        assert(strlen(again) <= strlen(h->all[i].value)); // but for zeros in front
    }
    web_head_is_modern(h);
    web_head_sends_json(h);
}

static void check_mirror(const struct web_head *h, const char *body)
{
    struct err e = ERR_INIT;
    struct rpc_message m;
    json_t *schema = json_loads(SCHEMA, 0, NULL);
    json_t *message = json_parse_nul(body, strlen(body), &e);
    e = ERR_INIT;
    if (message)
        rpc_read(message, &m);
    if (message && m.kind == RPC_REQUEST) {
        int rc = web_mirror_check(h, &m, &e);
        assert(rc == 0 || e.msg[0]);
        assert(rc < 0 || (h->version && str_eq(h->method, m.method)));
        web_mirror_check_params(h, schema, json_object_get(m.params, "arguments"), &e);
    }
    json_decref(message);
    json_decref(schema);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct http_header all[HEADERS_MAX];
    struct web_head h;
    size_t count;
    char *text auto_free = xstrndup((const char *)data, size);
    const char *body = read_headers(text, all, &count);
    web_head_read(&h, all, count);
    check_gate(&h);
    check_values(&h);
    check_mirror(&h, body);
    return 0;
}
