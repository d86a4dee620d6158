// SPDX-License-Identifier: Apache-2.0
// A machine's facts and size, as the daemon keeps them in its files.
#include "sandbox-backend/daemon/machine_json.h"

#include <string.h>

#include "sandbox-backend/base/json.h"

#define CPUS_MAX      1024
#define MEMORY_MB_MAX (1 << 24)
#define DISK_MB_MAX   (1 << 30)

json_t *machine_facts_to_json(const struct machine_facts *facts)
{
    return json_pack("{s:i, s:I, s:I, s:s, s:b}", "cpus", facts->cpus, "memory_mb",
                     (json_int_t)facts->memory_mb, "disk_mb", (json_int_t)facts->disk_mb, "accel",
                     facts->accel, "python", facts->python);
}

int machine_facts_from_json(struct machine_facts *facts, const json_t *json, struct err *e)
{
    int64_t cpus = 0;
    const char *accel = NULL;
    if (json_get_int(json, "cpus", 0, CPUS_MAX, &cpus, 0, e) < 0 ||
        json_get_int(json, "memory_mb", 0, MEMORY_MB_MAX, &facts->memory_mb, 0, e) < 0 ||
        json_get_int(json, "disk_mb", 0, DISK_MB_MAX, &facts->disk_mb, 0, e) < 0 ||
        json_get_string(json, "accel", &accel, "", e) < 0 ||
        json_get_bool(json, "python", &facts->python, false, e) < 0)
        return -1;
    facts->cpus = (int)cpus;
    strncpy(facts->accel, accel, sizeof facts->accel - 1);
    return 0;
}

json_t *machine_size_to_json(const struct machine_size *size)
{
    return json_pack("{s:i, s:I, s:I}", "cpus", size->cpus, "memory_mb",
                     (json_int_t)size->memory_mb, "disk_mb", (json_int_t)size->disk_mb);
}

int machine_size_from_json(struct machine_size *size, const json_t *json, struct err *e)
{
    int64_t cpus = 0;
    if (json_get_int(json, "cpus", 0, CPUS_MAX, &cpus, 0, e) < 0 ||
        json_get_int(json, "memory_mb", 0, MEMORY_MB_MAX, &size->memory_mb, 0, e) < 0 ||
        json_get_int(json, "disk_mb", 0, DISK_MB_MAX, &size->disk_mb, 0, e) < 0)
        return -1;
    size->cpus = (int)cpus;
    return 0;
}
