// SPDX-License-Identifier: Apache-2.0
// The line that tells a model what was refused to its sandbox, and since when.
#include <stdlib.h>

#include "mcp-server/tools/network_hint.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "tests/lib/tap.h"

#define REFUSED "Refused by the network of this sandbox: tcp a.example:443 (not allowed)"

static char *hint(const char *refused_at, const char *since)
{
    int64_t since_ns;
    json_t *answer =
        json_pack("{s:{s:s, s:[s]}, s:[{s:s, s:s, s:s, s:i, s:s}]}", "policy", "mode", "allow",
                  "allow", "b.example", "refusals", "timestamp", refused_at, "protocol", "tcp",
                  "name", "a.example", "port", 443, "reason", "not allowed");
    if (!answer || !clock_parse_rfc3339(since, &since_ns))
        abort();
    char *text = network_hint_text(answer, since_ns);
    json_decref(answer);
    return text;
}

static void check(const char *refused_at, const char *since, const char *want)
{
    char *text auto_free = hint(refused_at, since);
    is_str(text, want, "refused at %s, asked since %s", refused_at, since);
}

int main(void)
{
    const char *told = REFUSED ". Its policy allows: b.example";
    check("2026-11-22T12:00:00.500000001Z", "2026-11-22T12:00:00.5Z", told);
    check("2026-11-22T12:00:00.500000000Z", "2026-11-22T12:00:00.5Z", told);
    check("2026-11-22T12:00:00.499999999Z", "2026-11-22T12:00:00.5Z", NULL);
    // A time in whole seconds may be any within its second.
    check("2026-11-22T12:00:00Z", "2026-11-22T12:00:00.999Z", told);
    check("2026-11-22T12:00:00Z", "2026-11-22T12:00:01Z", NULL);
    check("2026-11-22T13:00:00+01:00", "2026-11-22T12:00:00.5Z", told);
    check("yesterday", "2026-11-22T12:00:00Z", NULL);
    return tap_done();
}
