// SPDX-License-Identifier: Apache-2.0
// A machine's facts and size in the daemon's files.
#include "sandbox-backend/daemon/sandbox/json_file.h"

#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"

#define NUMBER(TYPE, object, member, most)                                              \
    {                                                                                   \
        .key = #member, .type = TYPE, .offset = offsetof(object, member), .max = (most) \
    }
#define SIZES(object)                                        \
    NUMBER(JSON_FIELD_INT, object, cpus, 1024),              \
        NUMBER(JSON_FIELD_LONG, object, memory_mb, 1 << 24), \
        NUMBER(JSON_FIELD_LONG, object, disk_mb, 1 << 30)

static const struct json_field SIZE[] = {SIZES(struct machine_size),
                                         JSON_FIELD(JSON_FIELD_BOOL, struct machine_size, booted)};
static const struct json_field FACTS[] = {
    SIZES(struct machine_facts), JSON_FIELD(JSON_FIELD_BOOL, struct machine_facts, python)};

json_t *machine_facts_to_json(const struct machine_facts *facts)
{
    json_t *json = json_pack("{s:s, s:s}", "driver", facts->driver->name, "accel", facts->accel);
    json_fields_write(json, facts, FACTS, ARRAY_LEN(FACTS));
    return json;
}

int machine_facts_from_json(struct machine_facts *facts, const json_t *json, struct err *e)
{
    const char *accel = NULL, *driver = NULL;
    if (json_fields_read(facts, json, FACTS, ARRAY_LEN(FACTS), e) < 0 ||
        json_get_string(json, "accel", &accel, "", e) < 0 ||
        json_get_string(json, "driver", &driver, NULL, e) < 0)
        return -1;
    facts->driver = driver_find(driver); // files of older daemons name no driver
    if (!facts->driver)
        return err_set(e, ERR_PRECONDITION, "this cubbyd has no driver '%.40s'", driver);
    strncpy(facts->accel, accel, sizeof facts->accel - 1);
    return 0;
}

json_t *machine_size_to_json(const struct machine_size *size)
{
    json_t *json = json_object();
    json_fields_write(json, size, SIZE, ARRAY_LEN(SIZE));
    return json;
}

int machine_size_from_json(struct machine_size *size, const json_t *json, struct err *e)
{
    return json_fields_read(size, json, SIZE, ARRAY_LEN(SIZE), e);
}
