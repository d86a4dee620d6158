// SPDX-License-Identifier: Apache-2.0
// Structs as JSON in files.
#include "sandbox-backend/base/json_fields.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"

static json_t *field_to_json(const void *member, enum json_field_type type)
{
    if (type == JSON_FIELD_TEXT) {
        const char *text = *(char *const *)member;
        return text ? json_string(text) : json_null();
    }
    if (type == JSON_FIELD_BOOL)
        return json_boolean(*(const bool *)member);
    return json_integer(type == JSON_FIELD_INT ? *(const int *)member : *(const int64_t *)member);
}

int json_fields_write(json_t *json, const void *object, const struct json_field *fields,
                      size_t count)
{
    int result = 0;
    for (size_t i = 0; i < count; i++) {
        const void *member = (const char *)object + fields[i].offset;
        result |= json_object_set_new(json, fields[i].key, field_to_json(member, fields[i].type));
    }
    return result;
}

static int read_text(char **member, const json_t *json, const char *key, struct err *e)
{
    const char *text = NULL;
    if (json_get_string(json, key, &text, *member, e) < 0)
        return -1;
    char *copy = text ? xstrdup(text) : NULL;
    free(*member);
    *member = copy;
    return 0;
}

static int read_field(void *member, const json_t *json, const struct json_field *f, struct err *e)
{
    int64_t max = f->max ? f->max : INT64_MAX, number = 0;
    switch (f->type) {
    case JSON_FIELD_TEXT:
        return read_text(member, json, f->key, e);
    case JSON_FIELD_BOOL:
        return json_get_bool(json, f->key, member, *(bool *)member, e);
    case JSON_FIELD_LONG:
        return json_get_int(json, f->key, 0, max, member, *(int64_t *)member, e);
    case JSON_FIELD_INT:
        if (json_get_int(json, f->key, 0, max, &number, *(int *)member, e) < 0)
            return -1;
        *(int *)member = (int)number;
    }
    return 0;
}

int json_fields_read(void *object, const json_t *json, const struct json_field *fields,
                     size_t count, struct err *e)
{
    for (size_t i = 0; i < count; i++)
        if (read_field((char *)object + fields[i].offset, json, &fields[i], e) < 0)
            return -1;
    return 0;
}

json_t *json_file_read(const char *path, size_t max, struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    if (file_read(path, max, &text, e) < 0)
        return NULL;
    json_t *json = json_parse(buf_str(&text), text.len, e);
    if (!json)
        err_wrap(e, "%s", path);
    return json;
}
