// SPDX-License-Identifier: Apache-2.0
// DNS messages as bytes (RFC 1035): one question for IPv4 addresses, and its answer.
//
// Nothing of a message is handed through. A question of the guest's is read, another is asked in
// its place, and the answer is made anew from the addresses that were in the one that came.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/net_policy.h"

#define DNS_MESSAGE_MAX   1232 // asked for by EDNS0 (RFC 6891), and the most that is read
#define DNS_ANSWER_MAX    512  // what every asker takes
#define DNS_QUESTION_MAX  260  // name, type, class
#define DNS_ADDRESSES_MAX 14   // at 16 bytes each, beside the longest question, in DNS_ANSWER_MAX

#define DNS_TYPE_A 1

enum dns_rcode { DNS_OK = 0, DNS_SERVFAIL = 2, DNS_NXDOMAIN = 3, DNS_NOTIMP = 4, DNS_REFUSED = 5 };

struct dns_question {
    uint16_t id;
    uint16_t type;
    char name[NET_NAME_MAX + 1];     // lower case, without the root's dot
    uint8_t bytes[DNS_QUESTION_MAX]; // as it was asked, to be repeated in the answer
    size_t bytes_len;
};

struct dns_result {
    enum dns_rcode rcode;
    size_t count;
    uint32_t addresses[DNS_ADDRESSES_MAX]; // host order
    uint32_t ttl_s;                        // the least of all records on the way
};

// A plain question: one, of class IN, for a name of letters, digits, '-' and '_'. False for any
// other message, which is not answered.
bool dns_parse_question(struct dns_question *q, const uint8_t *data, size_t len);

// A question for the IPv4 addresses of `name`; its length.
size_t dns_make_question(uint8_t out[DNS_ANSWER_MAX], uint16_t id, const char *name);

// The answer to dns_make_question(id, name), its aliases followed. False when it is something else.
bool dns_parse_answer(struct dns_result *r, uint16_t id, const char *name, const uint8_t *data,
                      size_t len);

// The answer for the guest; its length.
size_t dns_make_answer(uint8_t out[DNS_ANSWER_MAX], const struct dns_question *q,
                       const struct dns_result *r);
