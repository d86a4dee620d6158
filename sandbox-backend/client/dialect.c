// SPDX-License-Identifier: Apache-2.0
// What every dialect does alike.
#include "sandbox-backend/client/dialect.h"

#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

// envd reads the name and ignores the password, which is empty.
void dialect_user(struct request *r, const char *user)
{
    struct buf plain auto_buf = BUF_INIT;
    struct buf value auto_buf = BUF_INIT;
    buf_printf(&plain, "%s:", user);
    buf_adds(&value, "Basic ");
    base64_encode(&value, plain.data, plain.len);
    request_header(r, "Authorization", buf_str(&value));
}

void dialect_route(struct request *r, const char *id, int port)
{
    char *number auto_free = str_printf("%d", port);
    request_header(r, "E2b-Sandbox-Id", id);
    request_header(r, "E2b-Sandbox-Port", number);
}

// The traffic token is for what a program in the guest serves, never for envd.
void dialect_tokens(struct request *r, const struct access *a, int port)
{
    if (a->token[0])
        request_header(r, "X-Access-Token", a->token);
    if (a->traffic_token[0] && port != ENVD_PORT)
        request_header(r, "E2B-Traffic-Access-Token", a->traffic_token);
}
