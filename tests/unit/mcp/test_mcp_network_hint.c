// SPDX-License-Identifier: Apache-2.0
// The network hint: the refusals that it names, and since when they count.
#include <stdlib.h>
#include <string.h>

#include "mcp-server/tools/run/network_hint.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "tests/lib/harness/tap.h"

#define REFUSED "The sandbox's network policy refused: tcp a.example:443 (not allowed)"

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

static void check_likely(void)
{
    static const char *const REFUSED_TEXTS[] = {
        "curl: (6) Could not resolve host: x.example",
        "curl: (7) Failed to connect to 10.0.0.1 port 80 after 1 ms: Couldn't connect to server",
        "W: Failed to fetch http://x/InRelease  Temporary failure resolving 'x'",
        "  Could not connect to deb.debian.org:80 (203.0.113.8). - connect (111: Connection "
        "refused)",
        "socket.gaierror: [Errno -3] Temporary failure in name resolution",
        "[Errno -2] Name or service not known",
        "wget: unable to resolve host address 'x'",
        "fatal: unable to access 'https://x/': Could not resolve host: x",
        "OSError: [Errno 101] Network is unreachable",
        "[Errno 113] No route to host",
        "ssh: connect to host x port 22: Connection timed out",
        "Error: getaddrinfo ENOTFOUND x",
        "npm ERR! code ECONNREFUSED",
        "TypeError: fetch failed",
        "dial tcp: lookup x: no such host",
        "dial tcp 10.0.0.1:80: i/o timeout",
        "curl: (56) Recv failure: Connection reset by peer",
        "NewConnectionError('...: Failed to establish a new connection: [Errno 111]')",
    };
    static const char *const OTHER_TEXTS[] = {
        "",
        "x",
        "connection established",
        "1 passed in 0.5s",
        "resolved 12 packages, fetched 3",
        "Hit:1 http://deb.debian.org/debian bookworm InRelease",
        "error: expected ';'",
    };
    for (size_t i = 0; i < ARRAY_LEN(REFUSED_TEXTS); i++)
        ok(network_hint_is_likely(REFUSED_TEXTS[i], strlen(REFUSED_TEXTS[i])), "likely: %s",
           REFUSED_TEXTS[i]);
    for (size_t i = 0; i < ARRAY_LEN(OTHER_TEXTS); i++)
        ok(!network_hint_is_likely(OTHER_TEXTS[i], strlen(OTHER_TEXTS[i])), "not likely: %s",
           OTHER_TEXTS[i]);
}

int main(void)
{
    check_likely();
    const char *told = REFUSED ". The policy allows: b.example";
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
