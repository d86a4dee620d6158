// SPDX-License-Identifier: Apache-2.0
// DNS messages: those that count as a question, and the addresses that an answer gives.
#include <string.h>

#include "sandbox-backend/netd/policy/dns.h"
#include "sandbox-backend/netd/wire/wire.h"
#include "tests/lib/harness/tap.h"

#define ID 0x1234

static uint8_t message[DNS_MESSAGE_MAX];
static size_t len;
static struct dns_question q;
static struct dns_result r;

static void put(const void *bytes, size_t count)
{
    memcpy(message + len, bytes, count);
    len += count;
}

static void put16(uint16_t v)
{
    wire_put16(message + len, v);
    len += 2;
}

static void head(uint16_t flags, uint16_t questions, uint16_t answers)
{
    len = 0;
    put16(ID);
    put16(flags);
    put16(questions);
    put16(answers);
    put16(0);
    put16(0);
}

static void name(const char *text)
{
    while (*text) {
        size_t n = strcspn(text, ".");
        message[len++] = (uint8_t)n;
        put(text, n);
        text += n + (text[n] == '.');
    }
    message[len++] = 0;
}

static void record(const char *owner, uint16_t type, uint16_t ttl)
{
    name(owner);
    put16(type);
    put16(1);
    put16(0);
    put16(ttl);
}

static void record_a(const char *owner, uint8_t last, uint16_t ttl)
{
    record(owner, DNS_TYPE_A, ttl);
    put16(4);
    put("\x08\x08\x04", 3);
    message[len++] = last;
}

static void record_cname(const char *owner, const char *target, uint16_t ttl)
{
    record(owner, 5, ttl);
    put16((uint16_t)(strlen(target) + 2));
    name(target);
}

static void begin_answer(uint16_t rcode, uint16_t answers)
{
    head((uint16_t)(0x8180 | rcode), 1, answers);
    name("a.example");
    put16(DNS_TYPE_A);
    put16(1);
}

static bool ask(const char *text)
{
    head(0x0100, 1, 0);
    name(text);
    put16(DNS_TYPE_A);
    put16(1);
    return dns_parse_question(&q, message, len);
}

static bool parse_answer(void)
{
    return dns_parse_answer(&r, ID, "a.example", message, len);
}

static void test_questions(void)
{
    ok(ask("WWW.Example.com"), "a plain question");
    is_str(q.name, "www.example.com", "its name in lower case");
    is_int(q.id, ID, "its number");
    is_int(q.type, DNS_TYPE_A, "its type");
    uint8_t out[DNS_ANSWER_MAX];
    size_t out_len = dns_make_answer(out, &q, &(struct dns_result){.rcode = DNS_REFUSED});
    is_int((long)out_len, (long)len, "an empty answer is as long");
    ok(memcmp(out + 12, message + 12, len - 12) == 0, "and repeats the question as it was asked");
    is_int(out[3] & 15, DNS_REFUSED, "with its code");
    ok(!ask("a b.example"), "no spaces");
    ok(!ask("a\n.example"), "no control characters");
    ask("a.example");
    for (size_t n = 0; n < len; n++)
        if (dns_parse_question(&q, message, n))
            ok(0, "cut to %zu bytes", n);
    head(0x8100, 1, 0);
    ok(!dns_parse_question(&q, message, len), "not an answer");
    head(0x0100, 2, 0);
    ok(!dns_parse_question(&q, message, len), "not two questions");
    head(0x0100, 1, 0);
    put("\xc0\x0c\0\1\0\1", 6);
    ok(!dns_parse_question(&q, message, len), "no pointers");
}

static void test_answers(void)
{
    begin_answer(0, 3);
    record_a("a.example", 4, 300);
    record_a("A.EXAMPLE", 5, 200);
    record_a("other.example", 6, 100);
    ok(parse_answer(), "an answer");
    is_int((long)r.count, 2, "only the addresses of the name that was asked for");
    is_int((long)r.addresses[1], 0x08080405, "are taken");
    is_int((long)r.ttl_s, 200, "for the shorter life");
    begin_answer(0, 4);
    record_a("c.example", 9, 300);
    record_cname("a.example", "b.example", 50);
    record_cname("b.example", "c.example", 70);
    record_a("b.example.evil", 6, 100);
    ok(parse_answer() && r.count == 1, "aliases are followed, in any order");
    is_int((long)r.addresses[0], 0x08080409, "to their address");
    is_int((long)r.ttl_s, 50, "for the shortest life on the way");
    begin_answer(0, 2);
    record_cname("a.example", "b.example", 50);
    record_cname("b.example", "a.example", 50);
    ok(parse_answer() && r.count == 0, "a ring of aliases ends");
    begin_answer(3, 0);
    ok(parse_answer() && r.rcode == DNS_NXDOMAIN && r.count == 0, "no such name");
}

static void test_what_is_no_answer(void)
{
    begin_answer(0, 1);
    record_a("a.example", 4, 300);
    ok(parse_answer() && r.count == 1, "an answer");
    ok(!dns_parse_answer(&r, ID + 1, "a.example", message, len), "not with another number");
    ok(!dns_parse_answer(&r, ID, "b.example", message, len), "not to another question");
    message[2] = 1;
    ok(!parse_answer(), "not a question");
    begin_answer(0, 1);
    record_a("a.example", 4, 300);
    for (size_t n = 0; n < len; n++)
        if (dns_parse_answer(&r, ID, "a.example", message, n) && r.count > 0)
            ok(0, "cut to %zu bytes", n);
    begin_answer(0, 1);
    put16((uint16_t)(0xc000 | len)); // a name that is where it stands
    put16(DNS_TYPE_A);
    ok(parse_answer() && r.count == 0, "a pointer to itself ends");
}

static void test_reply(void)
{
    char asked[NET_NAME_MAX + 1];
    begin_answer(0, 1);
    record_a("a.example", 4, 300);
    ok(dns_parse_reply(&r, asked, message, len) && strcmp(asked, "a.example") == 0 &&
           r.count == 1 && r.addresses[0] == 0x08080404,
       "the name and the address of an answer to anybody");
    head(0x0100, 1, 0);
    name("a.example");
    put16(DNS_TYPE_A);
    put16(1);
    ok(!dns_parse_reply(&r, asked, message, len), "not a question");
}

static void test_many_addresses(void)
{
    begin_answer(0, 40);
    for (int i = 0; i < 40; i++)
        record_a("a.example", (uint8_t)i, 300);
    ok(parse_answer() && r.count == DNS_ADDRESSES_MAX, "as many addresses as are handed on");
    char longest[NET_NAME_MAX + 1] = "";
    while (strlen(longest) < 240)
        strcat(longest, "abcdefgh.");
    strcat(longest, "com");
    ok(ask(longest), "a long name");
    uint8_t out[DNS_ANSWER_MAX];
    ok(dns_make_answer(out, &q, &r) <= sizeof out, "fits with them in an answer");
    ok(dns_make_question(out, ID, q.name) <= sizeof out, "and in a question");
}

int main(void)
{
    test_questions();
    test_answers();
    test_what_is_no_answer();
    test_reply();
    test_many_addresses();
    return tap_done();
}
