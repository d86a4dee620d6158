// SPDX-License-Identifier: Apache-2.0
// How many sandboxes of which template are to be ready, as --pool says it.
#include "sandbox-backend/daemon/pool_plan.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define OWN_TEMPLATE "default"
// For whom two more are no burden.
#define LARGE_MEMORY_BYTES (16LL << 30)
#define LARGE_CPUS         8
#define SMALL_MEMORY_BYTES (2LL << 30) // below it nothing is kept ready unasked

static int bad(const char *text, struct err *e)
{
    return err_set(e, ERR_INVALID,
                   "--pool: \"%.60s\" is none of: off, auto, N, LOW:HIGH, or a list of "
                   "TEMPLATE=N and TEMPLATE=LOW:HIGH with commas between; LOW <= HIGH <= %d",
                   text, POOL_HIGH_MAX);
}

static int add(struct pool_plan *plan, const char *template, size_t len, int low, int high,
               struct err *e)
{
    for (size_t i = 0; i < plan->count; i++)
        if (strlen(plan->marks[i].template) == len &&
            strncmp(plan->marks[i].template, template, len) == 0)
            return err_set(e, ERR_INVALID, "--pool: template \"%s\" is there twice",
                           plan->marks[i].template);
    if (plan->count == POOL_TEMPLATES_MAX)
        return err_set(e, ERR_INVALID, "--pool: more than %d templates", POOL_TEMPLATES_MAX);
    plan->marks[plan->count++] =
        (struct pool_mark){.template = xstrndup(template, len), .low = low, .high = high};
    return 0;
}

// "4" is "4:4": what is taken is made again at once.
static bool read_marks(const char *text, int *low, int *high)
{
    char *first auto_free = xstrndup(text, strcspn(text, ":"));
    const char *colon = strchr(text, ':');
    int64_t a = 0, b = 0;
    if (!str_to_int(first, 0, POOL_HIGH_MAX, &a) ||
        !str_to_int(colon ? colon + 1 : first, 0, POOL_HIGH_MAX, &b) || a > b)
        return false;
    *low = (int)a;
    *high = (int)b;
    return true;
}

static int read_item(struct pool_plan *plan, const char *item, struct err *e)
{
    const char *equals = strrchr(item, '=');
    int low = 0, high = 0;
    if (equals == item || !read_marks(equals ? equals + 1 : item, &low, &high))
        return bad(item, e);
    return equals ? add(plan, item, (size_t)(equals - item), low, high, e)
                  : add(plan, OWN_TEMPLATE, strlen(OWN_TEMPLATE), low, high, e);
}

static int fit_machine(struct pool_plan *plan, int64_t memory_bytes, int cpus, struct err *e)
{
    bool large = memory_bytes >= LARGE_MEMORY_BYTES && cpus >= LARGE_CPUS;
    if (memory_bytes < SMALL_MEMORY_BYTES)
        return 0;
    return add(plan, OWN_TEMPLATE, strlen(OWN_TEMPLATE), large ? 2 : 1, large ? 4 : 2, e);
}

int pool_plan_parse(const char *text, int64_t memory_bytes, int cpus, struct pool_plan *out,
                    struct err *e)
{
    *out = (struct pool_plan){0};
    if (!text || strcmp(text, "auto") == 0)
        return fit_machine(out, memory_bytes, cpus, e);
    if (strcmp(text, "off") == 0)
        return 0;
    char *copy auto_free = xstrdup(text);
    char *rest = copy;
    for (char *item; (item = strsep(&rest, ","));)
        if (read_item(out, item, e) < 0)
            return -1;
    return 0;
}

void pool_plan_fini(struct pool_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++)
        free(plan->marks[i].template);
    *plan = (struct pool_plan){0};
}
