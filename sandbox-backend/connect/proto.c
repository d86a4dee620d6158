// SPDX-License-Identifier: Apache-2.0
// Protocol Buffers: the tables, a client's JSON brought into one form, and JSON to binary.
#include "sandbox-backend/connect/proto.h"

#include <assert.h>
#include <string.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/connect/proto_internal.h"

enum proto_wire proto__wire(enum proto_type type)
{
    return type <= PROTO_ENUM ? PROTO_WIRE_VARINT : PROTO_WIRE_BYTES;
}

// Return the field of that lowerCamel name, or NULL.
static const struct proto_field *find_named(const struct proto_message *m, const char *name)
{
    for (size_t i = 0; i < m->count; i++)
        if (strcmp(m->fields[i].name, name) == 0)
            return &m->fields[i];
    return NULL;
}

static const struct proto_field *find_original(const struct proto_message *m, const char *name)
{
    for (size_t i = 0; i < m->count; i++)
        if (m->fields[i].original && strcmp(m->fields[i].original, name) == 0)
            return &m->fields[i];
    return NULL;
}

// Rename every member to lowerCamel, or remove it.
static int rename_members(const struct proto_message *m, json_t *message, struct err *e)
{
    const char *name;
    json_t *value;
    void *next;
    json_object_foreach_safe (message, next, name, value) {
        const struct proto_field *original = find_original(m, name);
        if (original && !json_is_null(value)) {
            if (json_object_get(message, original->name))
                return err_set(e, ERR_INVALID, "%s is given twice", original->name);
            // Replace the old name: the iteration would visit an added one.
            json_incref(value);
            json_object_del(message, name);
            json_object_set_new(message, original->name, value);
        } else if (json_is_null(value) || original || !find_named(m, name)) {
            json_object_del(message, name);
        }
    }
    return 0;
}

static int check_oneofs(const struct proto_message *m, const json_t *message, struct err *e)
{
    const char *seen[8] = {NULL};
    for (size_t i = 0; i < m->count; i++) {
        const struct proto_field *f = &m->fields[i];
        if (!f->oneof || !json_object_get(message, f->name))
            continue;
        if (seen[f->oneof % 8])
            return err_set(e, ERR_INVALID, "%s and %s cannot both be set", seen[f->oneof % 8],
                           f->name);
        seen[f->oneof % 8] = f->name;
    }
    return 0;
}

static int normalize_inner(const struct proto_field *f, json_t *value, struct err *e)
{
    size_t i;
    json_t *one;
    if (f->type != PROTO_MESSAGE)
        return 0;
    if (!f->repeated)
        return proto_normalize(f->message, value, e) < 0 ? err_wrap(e, "%s", f->name) : 0;
    if (!json_is_array(value))
        return err_set(e, ERR_INVALID, "%s must be an array", f->name);
    json_array_foreach (value, i, one)
        if (proto_normalize(f->message, one, e) < 0)
            return err_wrap(e, "%s[%zu]", f->name, i);
    return 0;
}

int proto_normalize(const struct proto_message *m, json_t *message, struct err *e)
{
    if (!json_is_object(message))
        return err_set(e, ERR_INVALID, "the message must be a JSON object");
    if (rename_members(m, message, e) < 0 || check_oneofs(m, message, e) < 0)
        return -1;
    for (size_t i = 0; i < m->count; i++) {
        json_t *value = json_object_get(message, m->fields[i].name);
        if (value && normalize_inner(&m->fields[i], value, e) < 0)
            return -1;
    }
    return 0;
}

// ---- JSON to binary

#define PATH_MAX_DEPTH 4

// ---- the wire

static void add_varint(struct buf *out, uint64_t number)
{
    while (number > 0x7f) {
        buf_addc(out, (char)(number | 0x80));
        number >>= 7;
    }
    buf_addc(out, (char)number);
}

static size_t varint_len(uint64_t number)
{
    size_t len = 1;
    while (number >>= 7)
        len++;
    return len;
}

static void add_key(struct buf *out, uint32_t number, enum proto_wire wire)
{
    add_varint(out, (uint64_t)number << 3 | (uint64_t)wire);
}

static void add_bytes(struct buf *out, uint32_t number, const void *data, size_t len)
{
    add_key(out, number, PROTO_WIRE_BYTES);
    add_varint(out, len);
    buf_add(out, data, len);
}

// ---- values

static int wrong_type(const struct proto_field *f, const char *wanted, struct err *e)
{
    return err_set(e, ERR_INVALID, "%s must be %s", f->name, wanted);
}

static int read_enum(const struct proto_field *f, const json_t *value, int64_t *out, struct err *e)
{
    const char *name = json_string_value(value);
    *out = json_integer_value(value);
    for (const struct proto_enum *v = f->values; name && v->name; v++)
        if (strcmp(v->name, name) == 0) {
            *out = v->number;
            return 0;
        }
    return name || !json_is_integer(value) ? wrong_type(f, "a name of its enum", e) : 0;
}

static int read_number(const struct proto_field *f, const json_t *value, int64_t *out,
                       struct err *e)
{
    if (f->type == PROTO_ENUM)
        return read_enum(f, value, out, e);
    *out = f->type == PROTO_BOOL ? json_is_true(value) : json_integer_value(value);
    if (f->type == PROTO_BOOL)
        return json_is_boolean(value) ? 0 : wrong_type(f, "true or false", e);
    if (json_is_integer(value) ||
        (json_is_string(value) && str_to_int(json_string_value(value), INT64_MIN, INT64_MAX, out)))
        return 0;
    return wrong_type(f, "a whole number", e);
}

static int encode_number(const struct proto_field *f, const json_t *value, struct buf *out,
                         struct err *e)
{
    int64_t number;
    if (read_number(f, value, &number, e) < 0)
        return -1;
    if (number == 0 && !f->has_presence && !f->oneof)
        return 0;
    uint64_t wire = (uint64_t)number;
    if (f->type == PROTO_SINT32)
        wire = (uint32_t)((uint32_t)number << 1 ^ (number < 0 ? UINT32_MAX : 0));
    add_key(out, f->number, PROTO_WIRE_VARINT);
    add_varint(out, wire);
    return 0;
}

static int encode_text(const struct proto_field *f, const json_t *value, struct buf *out,
                       struct err *e)
{
    struct buf plain auto_buf = BUF_INIT;
    if (!json_is_string(value))
        return wrong_type(f, "a string", e);
    const char *text = json_string_value(value);
    size_t len = json_string_length(value);
    if (f->type == PROTO_BYTES) {
        if (!base64_decode(&plain, text, len))
            return wrong_type(f, "base64", e);
        text = buf_str(&plain);
        len = plain.len;
    }
    if (len || f->has_presence || f->oneof || f->repeated)
        add_bytes(out, f->number, text, len);
    return 0;
}

static int encode_timestamp(const struct proto_field *f, const json_t *value, struct buf *out,
                            struct err *e)
{
    struct buf inner auto_buf = BUF_INIT;
    struct timespec when;
    if (!json_is_string(value) || !clock_parse_rfc3339_timespec(json_string_value(value), &when))
        return wrong_type(f, "a time as in RFC 3339", e);
    if (when.tv_sec) {
        add_key(&inner, 1, PROTO_WIRE_VARINT);
        add_varint(&inner, (uint64_t)when.tv_sec);
    }
    if (when.tv_nsec) {
        add_key(&inner, 2, PROTO_WIRE_VARINT);
        add_varint(&inner, (uint64_t)when.tv_nsec);
    }
    add_bytes(out, f->number, inner.data, inner.len);
    return 0;
}

static int encode_map(const struct proto_field *f, const json_t *map, struct buf *out,
                      struct err *e)
{
    static const struct proto_field PAIR[] = {
        {.number = 1, .type = PROTO_STRING, .name = "key", .has_presence = true},
        {.number = 2, .type = PROTO_STRING, .name = "value", .has_presence = true},
    };
    const char *name;
    json_t *value;
    if (!json_is_object(map))
        return wrong_type(f, "an object of strings", e);
    json_object_foreach ((json_t *)(uintptr_t)map, name, value) {
        struct buf pair auto_buf = BUF_INIT;
        add_bytes(&pair, PAIR[0].number, name, strlen(name));
        if (encode_text(&PAIR[1], value, &pair, e) < 0)
            return err_wrap(e, "%s", f->name);
        add_bytes(out, f->number, pair.data, pair.len);
    }
    return 0;
}

// ---- fields

static int encode_one(const struct proto_field *f, const json_t *value, struct buf *out,
                      struct err *e)
{
    struct buf inner auto_buf = BUF_INIT;
    if (proto__wire(f->type) == PROTO_WIRE_VARINT)
        return encode_number(f, value, out, e);
    if (f->type == PROTO_TIMESTAMP)
        return encode_timestamp(f, value, out, e);
    if (f->type == PROTO_STRING_MAP)
        return encode_map(f, value, out, e);
    if (f->type != PROTO_MESSAGE)
        return encode_text(f, value, out, e);
    if (proto_encode(f->message, value, &inner, e) < 0)
        return err_wrap(e, "%s", f->name);
    add_bytes(out, f->number, inner.data, inner.len);
    return 0;
}

static int encode_field(const struct proto_field *f, const json_t *value, struct buf *out,
                        struct err *e)
{
    if (!f->repeated)
        return encode_one(f, value, out, e);
    if (!json_is_array(value))
        return wrong_type(f, "an array", e);
    for (size_t i = 0; i < json_array_size(value); i++)
        if (encode_one(f, json_array_get(value, i), out, e) < 0)
            return -1;
    return 0;
}

int proto_encode(const struct proto_message *m, const json_t *message, struct buf *out,
                 struct err *e)
{
    if (!json_is_object(message))
        return err_set(e, ERR_INVALID, "the message must be an object");
    for (size_t i = 0; i < m->count; i++) {
        const json_t *value = json_object_get(message, m->fields[i].name);
        if (value && !json_is_null(value) && encode_field(&m->fields[i], value, out, e) < 0)
            return -1;
    }
    return 0;
}

int proto_encode_item(const struct proto_message *m, const char *name, const json_t *item,
                      struct buf *out, struct err *e)
{
    return encode_one(find_named(m, name), item, out, e);
}

void proto_put_bytes(const struct proto_message *m, const char *const *path, const void *data,
                     size_t len, struct buf *out)
{
    uint32_t numbers[PATH_MAX_DEPTH];
    size_t lengths[PATH_MAX_DEPTH]; // of what each field holds
    int depth = 0;
    for (; depth < PATH_MAX_DEPTH && path[depth]; depth++) {
        const struct proto_field *f = m ? find_named(m, path[depth]) : NULL;
        assert(f); // a literal path of a known message
        numbers[depth] = f->number;
        m = f->message;
    }
    lengths[depth - 1] = len;
    for (int i = depth - 1; i > 0; i--)
        lengths[i - 1] =
            varint_len((uint64_t)numbers[i] << 3) + varint_len(lengths[i]) + lengths[i];
    for (int i = 0; i < depth; i++) {
        add_key(out, numbers[i], PROTO_WIRE_BYTES);
        add_varint(out, lengths[i]);
    }
    buf_add(out, data, len);
}
