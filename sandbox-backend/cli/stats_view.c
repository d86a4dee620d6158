// SPDX-License-Identifier: Apache-2.0
// What sandboxes use, as people read it.
#include "sandbox-backend/cli/stats_view.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/span.h"
#include "sandbox-backend/cli/table.h"

static double number_of(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

const char *stats_view_state(const json_t *sandbox)
{
    const char *depth = json_string_value(json_object_get(sandbox, "depth"));
    bool runs = str_eq(cli_text(sandbox, "state"), "running");
    if (!depth)
        return cli_text(sandbox, "state");
    if (str_eq(depth, "freeze"))
        return runs ? "asleep (frozen)" : "frozen";
    return runs ? "asleep (hibernated)" : "hibernated";
}

// "0", "512", "12.3M", "1.2G": three digits that matter.
static char *bytes_text(double bytes)
{
    static const char UNITS[] = " KMGTP";
    size_t unit = 0;
    for (; bytes >= 999.5 && unit < sizeof UNITS - 2; unit++)
        bytes /= 1024;
    if (unit == 0)
        return str_printf("%.0f", bytes);
    return str_printf(bytes < 99.95 ? "%.1f%c" : "%.0f%c", bytes, UNITS[unit]);
}

// ---- the order
static double key_of(const json_t *sandbox, enum stats_order order)
{
    switch (order) {
    case STATS_BY_CPU:
        return number_of(sandbox, "cpuPercent");
    case STATS_BY_MEMORY:
        return number_of(sandbox, "memoryBytes");
    case STATS_BY_AGE:
        return number_of(sandbox, "ageSeconds");
    }
    return 0;
}

static int by_key(const void *a, const void *b, void *order)
{
    const json_t *const *left = a;
    const json_t *const *right = b;
    double difference =
        key_of(*right, *(enum stats_order *)order) - key_of(*left, *(enum stats_order *)order);
    if (difference != 0)
        return difference > 0 ? 1 : -1;
    return strcmp(cli_text(*left, "sandboxID"), cli_text(*right, "sandboxID"));
}

// ---- the table
static void add_bytes(struct table *t, const json_t *sandbox, const char *key)
{
    char *text auto_free = bytes_text(number_of(sandbox, key));
    table_cell(t, text);
}

static void add_row(struct table *t, const json_t *sandbox)
{
    const json_t *load = json_object_get(sandbox, "cpuPercent");
    char *percent auto_free =
        json_is_number(load) ? str_printf("%.1f", json_number_value(load)) : xstrdup("-");
    char *time auto_free = span_text((int64_t)number_of(sandbox, "cpuSeconds"));
    char *age auto_free = span_text((int64_t)number_of(sandbox, "ageSeconds"));
    table_cell(t, cli_text(sandbox, "sandboxID"));
    table_cell(t, cli_text(sandbox, "templateID"));
    table_cell(t, stats_view_state(sandbox));
    table_cell(t, percent);
    table_cell(t, time);
    add_bytes(t, sandbox, "memoryBytes");
    add_bytes(t, sandbox, "diskBytes");
    add_bytes(t, sandbox, "netInBytes");
    add_bytes(t, sandbox, "netOutBytes");
    table_cell(t, age);
}

static void print_table(const json_t *list, enum stats_order order, FILE *to)
{
    static const char *const HEADINGS[] = {"ID",     "TEMPLATE", "STATE",  "CPU %",   "CPU TIME",
                                           "MEMORY", "DISK",     "NET IN", "NET OUT", "AGE"};
    size_t count = json_array_size(list);
    const json_t **sorted auto_free = xcalloc(count + 1, sizeof(json_t *));
    struct table t;
    for (size_t i = 0; i < count; i++)
        sorted[i] = json_array_get(list, i);
    qsort_r(sorted, count, sizeof(json_t *), by_key, &order);
    table_init_headed(&t, HEADINGS, ARRAY_LEN(HEADINGS));
    for (size_t i = 0; i < count; i++)
        add_row(&t, sorted[i]);
    table_print(&t, to);
    table_fini(&t);
}

// ---- the machine
static void print_host(const json_t *host, FILE *to)
{
    char *total auto_free = bytes_text(number_of(host, "memoryTotalBytes"));
    char *available auto_free = bytes_text(number_of(host, "memoryAvailableBytes"));
    char *reserve auto_free = bytes_text(number_of(host, "memoryReserveBytes"));
    double left = number_of(host, "memoryFreeBytes");
    char *room auto_free = bytes_text(left > 0 ? left : 0);
    fprintf(to, "memory: %s of %s available, reserve %s, for new sandboxes %s\n", available, total,
            reserve, room);
    fprintf(to, "sandboxes: %.0f running, %.0f frozen, %.0f hibernated, %.0f pooled",
            number_of(host, "running"), number_of(host, "frozen"), number_of(host, "hibernated"),
            number_of(host, "pooled"));
    fprintf(to, "; %.0f wait for room, %.0f were refused\n", number_of(host, "waiting"),
            number_of(host, "refused"));
}

// The guest may not tell: what it wrote was in its cache.
static void print_disk_errors(const json_t *list, FILE *to)
{
    size_t i = 0;
    const json_t *sandbox = NULL;
    json_array_foreach(list, i, sandbox)
    {
        if (json_is_true(json_object_get(sandbox, "diskError")))
            fprintf(to,
                    "\n%s: this machine could not read or write its disk, so files in it may be "
                    "lost; see whether there is room for the state directory\n",
                    cli_text(sandbox, "sandboxID"));
    }
}

void stats_view_print(const json_t *stats, enum stats_order order, FILE *to)
{
    const json_t *host = json_object_get(stats, "host");
    if (json_object_get(host, "memoryTotalBytes")) { // who has a key is told of his own only
        print_host(host, to);
        fputc('\n', to);
    }
    print_table(json_object_get(stats, "sandboxes"), order, to);
    print_disk_errors(json_object_get(stats, "sandboxes"), to);
}

bool stats_view_is_whole(const json_t *stats)
{
    size_t i = 0;
    const json_t *sandbox = NULL;
    json_array_foreach(json_object_get(stats, "sandboxes"), i, sandbox)
    {
        if (json_is_null(json_object_get(sandbox, "cpuPercent")))
            return false;
    }
    return true;
}
