// SPDX-License-Identifier: Apache-2.0
// Fuzz DNS from both sides: a hostile guest's question, and arbitrary bytes in place of an answer.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/netd/policy/dns.h"
#include "sandbox-backend/netd/wire/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool promise)
{
    if (!promise)
        abort();
}

// What is asked in the guest's place is for the same name, and an answer to it fits.
static void check_question(const struct dns_question *q, const struct dns_result *r)
{
    uint8_t out[DNS_ANSWER_MAX];
    struct dns_question again;
    size_t len = dns_make_question(out, q->id, q->name);
    require(len <= sizeof(out) && dns_parse_question(&again, out, len));
    require(strcmp(again.name, q->name) == 0 && again.id == q->id && again.type == DNS_TYPE_A);
    require(dns_make_answer(out, q, r) <= sizeof(out));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dns_question q;
    struct dns_result r = {0}, reply;
    char asked[NET_NAME_MAX + 1];
    uint8_t *message = malloc(size + 1); // its own block, so that a sanitizer sees its end
    if (!message)
        return 0;
    memcpy(message, data, size);
    uint16_t id = 0;
    if (size >= 2)
        id = wire_get16(data);
    if (dns_parse_answer(&r, id, "a.example", message, size))
        require(r.count <= DNS_ADDRESSES_MAX);
    if (dns_parse_reply(&reply, asked, message, size))
        require(reply.count <= DNS_ADDRESSES_MAX && strlen(asked) <= NET_NAME_MAX);
    if (dns_parse_question(&q, message, size))
        check_question(&q, &r);
    free(message);
    return 0;
}
