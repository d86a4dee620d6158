// SPDX-License-Identifier: Apache-2.0
// Functions that both ends of HTTP share.
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/net/http.h"
#include "tests/lib/harness/tap.h"

int main(void)
{
    static const struct http_header headers[] = {{"A", "1"}, {"b", "2"}, {"a", "3"}};
    is_str(http_header_get(headers, 3, "a"), "1", "the first of a name, in any case");
    is_str(http_header_get(headers, 3, "B"), "2", "another");
    ok(!http_header_get(headers, 3, "c") && !http_header_get(headers, 0, "a"), "none");
    static const char *const HOPS[] = {"Connection",      "keep-alive", "TRANSFER-ENCODING",
                                       "Upgrade",         "TE",         "Proxy-Authorization",
                                       "proxy-connection"};
    for (size_t i = 0; i < ARRAY_LEN(HOPS); i++)
        ok(http_header_is_hop_by_hop(HOPS[i]), "%s ends at the next hop", HOPS[i]);
    ok(!http_header_is_hop_by_hop("Content-Length") && !http_header_is_hop_by_hop("Trailer") &&
           !http_header_is_hop_by_hop("Proxy"),
       "others do not");
    is_str(http_status_text(404), "Not Found", "a status");
    ok(http_status_text(299)[0] != '\0', "an unknown one has a text, too");
    return tap_done();
}
