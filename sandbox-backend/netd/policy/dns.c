// SPDX-License-Identifier: Apache-2.0
// DNS messages as bytes.
#include "sandbox-backend/netd/policy/dns.h"

#include <ctype.h>
#include <string.h>

#include "sandbox-backend/netd/wire/wire.h"

#define HEAD_BYTES   12
#define CLASS_IN     1
#define TYPE_CNAME   5
#define TYPE_OPT     41
#define FLAG_QR      0x8000
#define FLAG_OPCODE  0x7800
#define FLAG_RD      0x0100
#define FLAG_RA      0x0080
#define RCODE_MASK   0x000f
#define POINTER      0xc0 // a label length with these bits is a pointer
#define POINTERS_MAX 16
#define RECORDS_MAX  256
#define ALIASES_MAX  16
#define RECORD_BYTES 8 // type, class, ttl

struct reader {
    const uint8_t *data;
    size_t len, at;
};

static bool take16(struct reader *r, uint16_t *out)
{
    if (r->len - r->at < 2)
        return false;
    *out = wire_get16(r->data + r->at);
    r->at += 2;
    return true;
}

static bool add_label(char *name, size_t *used, const uint8_t *label, size_t len)
{
    if (*used + len + 1 > NET_NAME_MAX)
        return false;
    if (*used > 0)
        name[(*used)++] = '.';
    for (size_t i = 0; i < len; i++) {
        if (!isalnum(label[i]) && label[i] != '-' && label[i] != '_')
            return false;
        name[(*used)++] = (char)tolower(label[i]);
    }
    return true;
}

// Read a name and move the reader behind it. Pointers lead backwards only, so a chain ends.
static bool take_name(struct reader *r, char name[NET_NAME_MAX + 1], bool takes_pointers)
{
    size_t at = r->at, used = 0;
    int jumps = 0;
    for (;;) {
        if (at >= r->len)
            return false;
        uint8_t len = r->data[at];
        if ((len & POINTER) == POINTER) {
            if (!takes_pointers || at + 1 >= r->len || ++jumps > POINTERS_MAX)
                return false;
            size_t to = wire_get16(r->data + at) & 0x3fff;
            if (jumps == 1)
                r->at = at + 2;
            if (to >= at)
                return false;
            at = to;
            continue;
        }
        if (len & POINTER || len > r->len - at - 1)
            return false;
        at += 1 + (size_t)len;
        if (len == 0)
            break;
        if (!add_label(name, &used, r->data + at - len, len))
            return false;
    }
    name[used] = '\0';
    if (jumps == 0)
        r->at = at;
    return true;
}

bool dns_parse_question(struct dns_question *q, const uint8_t *data, size_t len)
{
    struct reader r = {data, len, HEAD_BYTES};
    uint16_t class = 0;
    if (len < HEAD_BYTES || wire_get16(data + 2) & (FLAG_QR | FLAG_OPCODE) ||
        wire_get16(data + 4) != 1)
        return false;
    if (!take_name(&r, q->name, false) || !take16(&r, &q->type) || !take16(&r, &class) ||
        class != CLASS_IN || r.at - HEAD_BYTES > DNS_QUESTION_MAX)
        return false;
    q->id = wire_get16(data);
    q->bytes_len = r.at - HEAD_BYTES;
    memcpy(q->bytes, data + HEAD_BYTES, q->bytes_len);
    return true;
}

// ---- asking

static size_t put_name(uint8_t *out, const char *name)
{
    size_t at = 0;
    while (*name) {
        size_t len = strcspn(name, ".");
        out[at++] = (uint8_t)len;
        memcpy(out + at, name, len);
        at += len;
        name += len + (name[len] == '.');
    }
    out[at++] = 0;
    return at;
}

size_t dns_make_question(uint8_t out[DNS_ANSWER_MAX], uint16_t id, const char *name)
{
    memset(out, 0, HEAD_BYTES);
    wire_put16(out, id);
    wire_put16(out + 2, FLAG_RD);
    wire_put16(out + 4, 1);  // questions
    wire_put16(out + 10, 1); // additional records: the OPT below
    size_t at = HEAD_BYTES + put_name(out + HEAD_BYTES, name);
    wire_put16(out + at, DNS_TYPE_A);
    wire_put16(out + at + 2, CLASS_IN);
    at += 4;
    memset(out + at, 0, 11);
    wire_put16(out + at + 1, TYPE_OPT);
    wire_put16(out + at + 3, DNS_MESSAGE_MAX);
    return at + 11;
}

// ---- the answer

struct record {
    char owner[NET_NAME_MAX + 1];
    uint16_t type, class;
    uint32_t ttl;
    struct reader data; // at its start, within the whole message; `len` is its end
};

static bool take_record(struct reader *r, struct record *rec)
{
    uint16_t size = 0;
    if (!take_name(r, rec->owner, true) || r->len - r->at < RECORD_BYTES)
        return false;
    rec->type = wire_get16(r->data + r->at);
    rec->class = wire_get16(r->data + r->at + 2);
    rec->ttl = wire_get32(r->data + r->at + 4);
    r->at += RECORD_BYTES;
    if (!take16(r, &size) || r->len - r->at < size)
        return false;
    rec->data = (struct reader){r->data, r->at + size, r->at};
    r->at += size;
    return true;
}

static void note_ttl(struct dns_result *out, uint32_t ttl)
{
    if (ttl < out->ttl_s)
        out->ttl_s = ttl;
}

// Search all records for `name`. Collect its addresses, or return true when `name` has been
// replaced by the name that it is an alias of.
static bool follow(struct dns_result *out, char name[NET_NAME_MAX + 1], struct reader r,
                   uint16_t count)
{
    struct record rec;
    char alias[NET_NAME_MAX + 1];
    for (int i = 0; i < count && i < RECORDS_MAX && take_record(&r, &rec); i++) {
        if (rec.class != CLASS_IN || strcmp(rec.owner, name) != 0)
            continue;
        if (rec.type == TYPE_CNAME && take_name(&rec.data, alias, true)) {
            memcpy(name, alias, sizeof(alias));
            note_ttl(out, rec.ttl);
            return true;
        }
        if (rec.type == DNS_TYPE_A && rec.data.len - rec.data.at == 4 &&
            out->count < DNS_ADDRESSES_MAX) {
            note_ttl(out, rec.ttl);
            out->addresses[out->count++] = wire_get32(rec.data.data + rec.data.at);
        }
    }
    return false;
}

// Read the question of an answer, and move the reader behind it.
static bool take_asked(struct reader *r, char name[NET_NAME_MAX + 1])
{
    uint16_t type = 0, class = 0;
    return r->len >= HEAD_BYTES && wire_get16(r->data + 2) & FLAG_QR &&
           wire_get16(r->data + 4) == 1 && take_name(r, name, false) && take16(r, &type) &&
           take16(r, &class) && type == DNS_TYPE_A && class == CLASS_IN;
}

static void take_addresses(struct dns_result *out, const char *name, const struct reader *r)
{
    char asked[NET_NAME_MAX + 1];
    memcpy(asked, name, sizeof asked);
    *out = (struct dns_result){.ttl_s = UINT32_MAX, .rcode = wire_get16(r->data + 2) & RCODE_MASK};
    for (int i = 0; i < ALIASES_MAX && follow(out, asked, *r, wire_get16(r->data + 6)); i++)
        continue;
}

bool dns_parse_answer(struct dns_result *out, uint16_t id, const char *name, const uint8_t *data,
                      size_t len)
{
    struct reader r = {data, len, HEAD_BYTES};
    char asked[NET_NAME_MAX + 1];
    if (!take_asked(&r, asked) || wire_get16(data) != id || strcmp(asked, name) != 0)
        return false;
    take_addresses(out, asked, &r);
    return true;
}

bool dns_parse_reply(struct dns_result *out, char name[NET_NAME_MAX + 1], const uint8_t *data,
                     size_t len)
{
    struct reader r = {data, len, HEAD_BYTES};
    if (!take_asked(&r, name))
        return false;
    take_addresses(out, name, &r);
    return true;
}

size_t dns_make_answer(uint8_t out[DNS_ANSWER_MAX], const struct dns_question *q,
                       const struct dns_result *r)
{
    memset(out, 0, HEAD_BYTES);
    wire_put16(out, q->id);
    wire_put16(out + 2, (uint16_t)(FLAG_QR | FLAG_RD | FLAG_RA | (uint16_t)r->rcode));
    wire_put16(out + 4, 1);
    wire_put16(out + 6, (uint16_t)r->count);
    memcpy(out + HEAD_BYTES, q->bytes, q->bytes_len);
    uint8_t *at = out + HEAD_BYTES + q->bytes_len;
    for (size_t i = 0; i < r->count; i++, at += 16) {
        wire_put16(at, POINTER << 8 | HEAD_BYTES); // the question's name
        wire_put16(at + 2, DNS_TYPE_A);
        wire_put16(at + 4, CLASS_IN);
        wire_put32(at + 6, r->ttl_s);
        wire_put16(at + 10, 4);
        wire_put32(at + 12, r->addresses[i]);
    }
    return (size_t)(at - out);
}
