// SPDX-License-Identifier: Apache-2.0
// Protocol Buffers: binary to JSON.
//
// Repeated occurrences follow the specification: the last scalar counts, messages are merged, the
// last member of a oneof counts. A field with a wrong wire type is treated as unknown.
#include <stdio.h>
#include <string.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/connect/proto_internal.h"

#define VARINT_BYTES_MAX 10
#define GROUPS_MAX       32 // within one another; only skipped, as proto3 has none

struct reader {
    const unsigned char *at, *end;
    size_t *values; // made so far, in all of the message
};

struct tag {
    uint32_t number;
    enum proto_wire wire;
};

static int decode_into(const struct proto_message *m, struct reader *r, json_t *message,
                       struct err *e);

// ---- the wire

static int truncated(struct err *e)
{
    return err_set(e, ERR_INVALID, "the message ends within a field");
}

static int read_varint(struct reader *r, uint64_t *out, struct err *e)
{
    *out = 0;
    for (int i = 0; i < VARINT_BYTES_MAX; i++) {
        if (r->at == r->end)
            return truncated(e);
        unsigned char byte = *r->at++;
        *out |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (!(byte & 0x80))
            return i < VARINT_BYTES_MAX - 1 || byte <= 1
                       ? 0
                       : err_set(e, ERR_INVALID, "the message has a number of more than 64 bits");
    }
    return err_set(e, ERR_INVALID, "the message has a number of more than %d bytes",
                   VARINT_BYTES_MAX);
}

static int read_tag(struct reader *r, struct tag *out, struct err *e)
{
    uint64_t key;
    if (read_varint(r, &key, e) < 0)
        return -1;
    *out = (struct tag){.number = (uint32_t)(key >> 3), .wire = (enum proto_wire)(key & 7)};
    if (key > UINT32_MAX || out->number == 0 || out->wire > PROTO_WIRE_32)
        return err_set(e, ERR_INVALID, "the message has an invalid field key");
    return 0;
}

// Read a length, and make a reader of that many bytes.
static int read_bytes(struct reader *r, struct reader *out, struct err *e)
{
    uint64_t len;
    if (read_varint(r, &len, e) < 0)
        return -1;
    if (len > (size_t)(r->end - r->at))
        return truncated(e);
    *out = (struct reader){.at = r->at, .end = r->at + len, .values = r->values};
    r->at += len;
    return 0;
}

static int skip_bytes(struct reader *r, size_t len, struct err *e)
{
    if (len > (size_t)(r->end - r->at))
        return truncated(e);
    r->at += len;
    return 0;
}

static int skip_plain(struct reader *r, enum proto_wire wire, struct err *e)
{
    uint64_t number;
    struct reader inner;
    if (wire == PROTO_WIRE_VARINT)
        return read_varint(r, &number, e);
    if (wire == PROTO_WIRE_BYTES)
        return read_bytes(r, &inner, e);
    return skip_bytes(r, wire == PROTO_WIRE_64 ? 8 : 4, e);
}

// Skip an unknown field; a group up to its end.
static int skip_field(struct reader *r, struct tag tag, struct err *e)
{
    uint32_t open[GROUPS_MAX];
    int depth = 0;
    for (;;) {
        if (tag.wire == PROTO_WIRE_GROUP) {
            if (depth == GROUPS_MAX)
                return err_set(e, ERR_INVALID, "the message nests groups more than %d deep",
                               GROUPS_MAX);
            open[depth++] = tag.number;
        } else if (tag.wire == PROTO_WIRE_GROUP_END) {
            if (depth == 0 || open[--depth] != tag.number)
                return err_set(e, ERR_INVALID, "the message ends a group that it did not begin");
        } else if (skip_plain(r, tag.wire, e) < 0) {
            return -1;
        }
        if (depth == 0)
            return 0;
        if (read_tag(r, &tag, e) < 0)
            return -1;
    }
}

// ---- values

static json_t *make_text(const struct proto_field *f, const struct reader *r, struct err *e)
{
    size_t len = (size_t)(r->end - r->at);
    const char *text = len ? (const char *)r->at : "";
    json_t *value = memchr(text, 0, len) ? NULL : json_stringn(text, len);
    if (!value)
        err_set(e, ERR_INVALID, "%s must be UTF-8 without NUL", f->name);
    return value;
}

static json_t *make_bytes(const struct reader *r)
{
    struct buf text auto_buf = BUF_INIT;
    base64_encode(&text, r->at, (size_t)(r->end - r->at));
    return json_stringn_nocheck(buf_str(&text), text.len);
}

static json_t *make_int64(int64_t number)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)number);
    return json_string(text);
}

static json_t *make_enum(const struct proto_field *f, int32_t number)
{
    for (const struct proto_enum *v = f->values; v->name; v++)
        if (v->number == number)
            return json_string(v->name);
    return json_integer(number);
}

static json_t *make_timestamp(struct reader r, struct err *e)
{
    uint64_t parts[3] = {0};
    while (r.at < r.end) {
        struct tag tag;
        if (read_tag(&r, &tag, e) < 0)
            return NULL;
        bool ours = tag.wire == PROTO_WIRE_VARINT && tag.number <= 2;
        if ((ours ? read_varint(&r, &parts[tag.number], e) : skip_field(&r, tag, e)) < 0)
            return NULL;
    }
    struct timespec when = {.tv_sec = (time_t)parts[1], .tv_nsec = (int32_t)parts[2]};
    if (when.tv_nsec < 0 || when.tv_nsec >= PROTO_NANOS_PER_S || !clock_rfc3339_has(when.tv_sec)) {
        err_set(e, ERR_INVALID, "the message has a time outside the years 1 to 9999");
        return NULL;
    }
    char text[CLOCK_RFC3339_BYTES];
    clock_rfc3339_timespec(text, when);
    return json_string(text);
}

static bool is_default(const struct proto_field *f, const json_t *value)
{
    if (json_is_string(value) && f->type == PROTO_INT64)
        return strcmp(json_string_value(value), "0") == 0;
    if (f->type == PROTO_ENUM)
        return json_is_string(value) && f->values[0].number == 0 &&
               strcmp(json_string_value(value), f->values[0].name) == 0;
    if (json_is_string(value))
        return json_string_length(value) == 0 && f->type != PROTO_TIMESTAMP;
    return json_is_false(value) || (json_is_integer(value) && json_integer_value(value) == 0);
}

static void drop_others(const struct proto_message *m, const struct proto_field *f, json_t *message)
{
    for (size_t i = 0; f->oneof && i < m->count; i++)
        if (m->fields[i].oneof == f->oneof && &m->fields[i] != f)
            json_object_del(message, m->fields[i].name);
}

static int put(const struct proto_field *f, json_t *message, json_t *value)
{
    if (!value)
        return -1;
    if (f->repeated) {
        json_t *array = json_object_get(message, f->name);
        if (!array) {
            array = json_array();
            json_object_set_new(message, f->name, array);
        }
        return json_array_append_new(array, value);
    }
    if (!f->has_presence && !f->oneof && is_default(f, value)) {
        json_decref(value);
        json_object_del(message, f->name);
        return 0;
    }
    return json_object_set_new(message, f->name, value);
}

// ---- fields

static json_t *make_number(const struct proto_field *f, uint64_t number)
{
    uint32_t low = (uint32_t)number;
    if (f->type == PROTO_BOOL)
        return json_boolean(number != 0);
    if (f->type == PROTO_UINT32)
        return json_integer(low);
    if (f->type == PROTO_SINT32)
        return json_integer((int32_t)(low >> 1 ^ (~(low & 1) + 1)));
    if (f->type == PROTO_INT64)
        return make_int64((int64_t)number);
    return make_enum(f, (int32_t)low);
}

static int decode_message(const struct proto_field *f, struct reader *r, json_t *message,
                          struct err *e)
{
    json_t *inner = f->repeated ? NULL : json_object_get(message, f->name);
    if (!inner) {
        inner = json_object();
        put(f, message, inner);
    }
    return decode_into(f->message, r, inner, e);
}

static int decode_pair(const struct proto_field *f, struct reader *r, json_t *message,
                       struct err *e)
{
    static const struct proto_field PAIR[] = {{.name = "a key"}, {.name = "a value"}};
    struct reader texts[2] = {*r, *r};
    texts[0].end = texts[0].at;
    texts[1].end = texts[1].at;
    while (r->at < r->end) {
        struct tag tag;
        if (read_tag(r, &tag, e) < 0)
            return -1;
        bool ours = tag.wire == PROTO_WIRE_BYTES && (tag.number == 1 || tag.number == 2);
        if ((ours ? read_bytes(r, &texts[tag.number - 1], e) : skip_field(r, tag, e)) < 0)
            return -1;
    }
    json_t *key = make_text(&PAIR[0], &texts[0], e);
    json_t *value = key ? make_text(&PAIR[1], &texts[1], e) : NULL;
    json_t *map = json_object_get(message, f->name);
    if (value && !map) {
        map = json_object();
        json_object_set_new(message, f->name, map);
    }
    int rc = value ? json_object_set_new(map, json_string_value(key), value) : -1;
    json_decref(key);
    return rc < 0 ? err_wrap(e, "%s", f->name) : 0;
}

static int decode_bytes(const struct proto_field *f, struct reader *r, json_t *message,
                        struct err *e)
{
    struct reader inner;
    if (read_bytes(r, &inner, e) < 0)
        return -1;
    if (f->type == PROTO_MESSAGE)
        return decode_message(f, &inner, message, e);
    if (f->type == PROTO_STRING_MAP)
        return decode_pair(f, &inner, message, e);
    json_t *value = f->type == PROTO_BYTES       ? make_bytes(&inner)
                    : f->type == PROTO_TIMESTAMP ? make_timestamp(inner, e)
                                                 : make_text(f, &inner, e);
    return put(f, message, value);
}

static int decode_field(const struct proto_message *m, const struct proto_field *f,
                        struct reader *r, json_t *message, struct err *e)
{
    uint64_t number;
    if (++*r->values > JSON_VALUES_MAX)
        return err_set(e, ERR_INVALID, "the message has more than %d values", JSON_VALUES_MAX);
    drop_others(m, f, message);
    if (proto__wire(f->type) == PROTO_WIRE_BYTES)
        return decode_bytes(f, r, message, e);
    return read_varint(r, &number, e) < 0 ? -1 : put(f, message, make_number(f, number));
}

static const struct proto_field *find_field(const struct proto_message *m, struct tag tag)
{
    for (size_t i = 0; i < m->count; i++)
        if (m->fields[i].number == tag.number)
            return proto__wire(m->fields[i].type) == tag.wire ? &m->fields[i] : NULL;
    return NULL;
}

static int decode_into(const struct proto_message *m, struct reader *r, json_t *message,
                       struct err *e)
{
    while (r->at < r->end) {
        struct tag tag;
        if (read_tag(r, &tag, e) < 0)
            return -1;
        const struct proto_field *f = find_field(m, tag);
        if ((f ? decode_field(m, f, r, message, e) : skip_field(r, tag, e)) < 0)
            return -1;
    }
    return 0;
}

json_t *proto_decode(const struct proto_message *m, const void *data, size_t len, struct err *e)
{
    const unsigned char *bytes = len ? data : (const void *)"";
    size_t values = 0;
    struct reader r = {.at = bytes, .end = bytes + len, .values = &values};
    json_t *message = json_object();
    if (decode_into(m, &r, message, e) == 0)
        return message;
    json_decref(message);
    return NULL;
}
