// SPDX-License-Identifier: Apache-2.0
// A template as a machine of another size has it.
#include "sandbox-backend/drivers/microvm/sized.h"

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

char *sized_apply(struct template *t, const char *template_dir, const struct machine_size *size)
{
    int64_t cpus = size->cpus ? size->cpus : t->cpus;
    int64_t memory_mb = size->memory_mb ? size->memory_mb : t->memory_mb;
    bool is_own = cpus != t->cpus || memory_mb != t->memory_mb;
    t->cpus = cpus;
    t->memory_mb = memory_mb;
    t->disk_mb = size->disk_mb ? size->disk_mb : t->disk_mb;
    return is_own ? xstrdup(SIZED_ZEROS) : str_printf("%s/" TEMPLATE_MEMORY, template_dir);
}

bool sized_is_own(const char *memory)
{
    return str_eq(memory, SIZED_ZEROS);
}

char *sized_load(struct template *t, const char *template_dir, const struct machine_size *size,
                 struct err *e)
{
    return template_load(template_dir, t, e) == 0 ? sized_apply(t, template_dir, size) : NULL;
}
