// SPDX-License-Identifier: Apache-2.0
// The parts of HTTP/1.1 that client and server share: headers and status texts.
#include "sandbox-backend/net/http.h"

#include <strings.h>

#include "sandbox-backend/base/mem.h"

bool http_name_is(const char *received, const char *name)
{
    // Most names differ in the first letter already, whatever its case.
    return ((*received ^ *name) & 0x5F) == 0 && strcasecmp(received, name) == 0;
}

bool http_is_token(const char *s)
{
    static const char ALL[] = "!#$%&'*+-.^_`|~0123456789"
                              "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    static bool allowed[256];
    if (!allowed['a'])
        for (const char *c = ALL; *c; c++)
            allowed[(unsigned char)*c] = true;
    const char *end = s;
    while (allowed[(unsigned char)*end])
        end++;
    return end > s && !*end;
}

const char *http_header_get(const struct http_header *headers, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (http_name_is(headers[i].name, name))
            return headers[i].value;
    return NULL;
}

int http_header_is_hop_by_hop(const char *name)
{
    static const char *const NAMES[] = {"connection", "keep-alive", "transfer-encoding", "upgrade",
                                        "te"};
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++)
        if (strcasecmp(name, NAMES[i]) == 0)
            return 1;
    return strncasecmp(name, "proxy-", 6) == 0;
}

static const struct {
    int status;
    const char *text;
} STATUS[] = {
    {100, "Continue"},
    {101, "Switching Protocols"},
    {102, "Processing"},
    {103, "Early Hints"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {206, "Partial Content"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {303, "See Other"},
    {304, "Not Modified"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {411, "Length Required"},
    {412, "Precondition Failed"},
    {413, "Content Too Large"},
    {415, "Unsupported Media Type"},
    {416, "Range Not Satisfiable"},
    {417, "Expectation Failed"},
    {421, "Misdirected Request"},
    {425, "Too Early"},
    {422, "Unprocessable Content"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {499, "Client Closed Request"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
    {507, "Insufficient Storage"},
};

const char *http_status_text(int status)
{
    for (size_t i = 0; i < ARRAY_LEN(STATUS); i++)
        if (STATUS[i].status == status)
            return STATUS[i].text;
    return "Status";
}
