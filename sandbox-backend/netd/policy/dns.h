// SPDX-License-Identifier: Apache-2.0
// DNS messages as bytes (RFC 1035): one question for IPv4 addresses, and its answer.
//
// No message is passed through. netd reads the guest's question, asks one of its own, and makes a
// new answer from the addresses in the answer that it gets.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/net_policy.h"

#define DNS_MESSAGE_MAX   1232 // offered with EDNS0 (RFC 6891); netd reads no longer message
#define DNS_ANSWER_MAX    512  // the size that every client accepts
#define DNS_QUESTION_MAX  260  // name, type, class
#define DNS_ADDRESSES_MAX 14   // 16 bytes each, beside the longest question in DNS_ANSWER_MAX

#define DNS_TYPE_A 1

enum dns_rcode { DNS_OK = 0, DNS_SERVFAIL = 2, DNS_NXDOMAIN = 3, DNS_NOTIMP = 4, DNS_REFUSED = 5 };

struct dns_question {
    uint16_t id;
    uint16_t type;
    char name[NET_NAME_MAX + 1];     // lower case, without the root's dot
    uint8_t bytes[DNS_QUESTION_MAX]; // as asked; the answer repeats it
    size_t bytes_len;
};

struct dns_result {
    enum dns_rcode rcode;
    size_t count;
    uint32_t addresses[DNS_ADDRESSES_MAX]; // host order
    uint32_t ttl_s;                        // the least of all records that led to the addresses
};

// Parse a plain question: one question of class IN, for a name of letters, digits, '-' and '_'.
// False for any other message, which gets no answer.
bool dns_parse_question(struct dns_question *q, const uint8_t *data, size_t len);

// Make a question for the IPv4 addresses of `name`. Return its length.
size_t dns_make_question(uint8_t out[DNS_ANSWER_MAX], uint16_t id, const char *name);

// Parse the answer to dns_make_question(id, name), following aliases. False for any other message.
bool dns_parse_answer(struct dns_result *r, uint16_t id, const char *name, const uint8_t *data,
                      size_t len);

// Parse an answer to a question that another program asked. `name` is the name in it, lower case.
bool dns_parse_reply(struct dns_result *r, char name[NET_NAME_MAX + 1], const uint8_t *data,
                     size_t len);

// Make the answer for the guest. Return its length.
size_t dns_make_answer(uint8_t out[DNS_ANSWER_MAX], const struct dns_question *q,
                       const struct dns_result *r);
