// SPDX-License-Identifier: Apache-2.0
// How many sandboxes of which template are to be ready, as --pool says it. Pure.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"

#define POOL_HIGH_MAX      64 // ready ones of one template
#define POOL_TEMPLATES_MAX 16

// Below `low` it is filled up to `high`.
struct pool_mark {
    char *template; // owned; a name or an alias
    int low, high;
};

struct pool_plan {
    struct pool_mark marks[POOL_TEMPLATES_MAX];
    size_t count; // 0: no pool
};

// "off"; "auto" (NULL is the same), which goes by the machine's memory and processors; marks of the
// template "default" ("4", "2:8"); or a list of "<template>=<marks>" ("default=2:8,minimal=1").
// `out` is ended with pool_plan_fini, also after a failure.
int pool_plan_parse(const char *text, int64_t memory_bytes, int cpus, struct pool_plan *out,
                    struct err *e);
void pool_plan_fini(struct pool_plan *plan);
