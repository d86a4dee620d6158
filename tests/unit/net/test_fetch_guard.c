// SPDX-License-Identifier: Apache-2.0
// The addresses that a download may connect to.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/un.h>

#include "sandbox-backend/net/fetch_guard.h"
#include "tests/lib/harness/tap.h"

static const char *const PUBLIC[] = {
    "1.1.1.1",          "8.8.8.8",         "93.184.216.34",   "172.15.255.255",   "172.32.0.0",
    "100.63.255.255",   "100.128.0.0",     "192.167.255.255", "198.17.255.255",   "198.20.0.0",
    "223.255.255.255",  "169.253.255.255", "2606:4700::1111", "2a00:1450:4001::", "::ffff:8.8.8.8",
    "64:ff9b::8.8.8.8", "2002:808:808::1", "11.0.0.1",        "126.255.255.255",  "168.63.129.15",
};

static const char *const REFUSED[] = {
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.192",
    "192.0.2.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.9",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "168.63.129.16",
    "::",
    "::1",
    "fe80::1",
    "fc00::1",
    "fd00:ec2::254",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::10.0.0.1",
    "::127.0.0.1",
    "2002:7f00:1::1",
    "2001::1",
    "2001:db8::1",
    "100::1",
    "fec0::1",
    "64:ff9b:1::a00:1",
    "3fff::1",
};

// Not an address or a net.
static const char *const BAD[] = {"localhost", "10.0.0.0/33", "10.0.0.0/", "1.2.3", "", "::/129"};

static bool allows(const struct fetch_guard *g, const char *address)
{
    struct sockaddr_storage s = {0};
    struct sockaddr_in *v4 = (struct sockaddr_in *)&s;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&s;
    if (inet_pton(AF_INET, address, &v4->sin_addr) == 1) {
        s.ss_family = AF_INET;
    } else {
        ok(inet_pton(AF_INET6, address, &v6->sin6_addr) == 1, "%s is an address", address);
        s.ss_family = AF_INET6;
    }
    return fetch_guard_allows(g, (struct sockaddr *)&s);
}

static void test_defaults(void)
{
    struct fetch_guard g = {0};
    for (size_t i = 0; i < sizeof PUBLIC / sizeof *PUBLIC; i++)
        ok(allows(&g, PUBLIC[i]), "%s is public", PUBLIC[i]);
    for (size_t i = 0; i < sizeof REFUSED / sizeof *REFUSED; i++)
        ok(!allows(&g, REFUSED[i]), "%s is refused", REFUSED[i]);
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    ok(!fetch_guard_allows(&g, (struct sockaddr *)&un), "a unix socket is refused");
}

static void test_allowed_by_user(void)
{
    struct fetch_guard g = {0};
    struct err e = ERR_INIT;
    struct opt_list list = {.items = {"127.0.0.1", "10.1.0.0/16", "fd00::/8"}, .count = 3};
    is_int(fetch_guard_init(&g, &list, "allow", &e), 0, "what the user allows");
    ok(allows(&g, "127.0.0.1"), "an address");
    ok(!allows(&g, "127.0.0.2"), "and not its neighbour");
    ok(allows(&g, "10.1.255.1"), "in the net");
    ok(!allows(&g, "10.2.0.1"), "beside the net");
    ok(allows(&g, "fd12::1"), "in the IPv6 net");
    ok(!allows(&g, "fe80::1"), "beside it");
}

static void test_malformed(void)
{
    struct fetch_guard g = {0};
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        struct opt_list bad = {.items = {BAD[i]}, .count = 1};
        struct err why = ERR_INIT;
        ok(fetch_guard_init(&g, &bad, "allow", &why) < 0 && why.code == ERR_INVALID,
           "\"%s\" is no net", BAD[i]);
    }
}

int main(void)
{
    test_defaults();
    test_allowed_by_user();
    test_malformed();
    return tap_done();
}
