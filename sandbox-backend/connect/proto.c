// SPDX-License-Identifier: Apache-2.0
// Protocol Buffers: the tables, and a client's JSON in one form.
#include "sandbox-backend/connect/proto.h"

#include <string.h>

#include "sandbox-backend/connect/proto_internal.h"

enum proto_wire proto__wire(enum proto_type type)
{
    return type <= PROTO_ENUM ? PROTO_WIRE_VARINT : PROTO_WIRE_BYTES;
}

const struct proto_field *proto__named(const struct proto_message *m, const char *name)
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

// Every member gets its lowerCamel name, or goes.
static int rename_members(const struct proto_message *m, json_t *message, struct err *e)
{
    const char *name;
    json_t *value;
    void *next;
    json_object_foreach_safe(message, next, name, value)
    {
        const struct proto_field *original = find_original(m, name);
        if (original && !json_is_null(value)) {
            if (json_object_get(message, original->name))
                return err_set(e, ERR_INVALID, "%s is given twice", original->name);
            // In place of the old name, not beside it: the iteration would come to it again.
            json_incref(value);
            json_object_del(message, name);
            json_object_set_new(message, original->name, value);
        } else if (json_is_null(value) || original || !proto__named(m, name)) {
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
    json_array_foreach(value, i, one) if (proto_normalize(f->message, one, e) <
                                          0) return err_wrap(e, "%s[%zu]", f->name, i);
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
