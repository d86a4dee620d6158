// SPDX-License-Identifier: Apache-2.0
// cubby stats: show what the sandboxes use of this host, once.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/connection.h"

// ---- values as text

static double number_of(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

const char *stats_view_state(const json_t *sandbox)
{
    const char *depth = json_string_value(json_object_get(sandbox, "depth"));
    bool runs = str_eq(cli_text(sandbox, "state"), "running");
    if (json_object_get(sandbox, "movingTo"))
        return "moving";
    if (!depth)
        return cli_text(sandbox, "state");
    if (str_eq(depth, "freeze"))
        return runs ? "asleep (frozen)" : "frozen";
    return runs ? "asleep (hibernated)" : "hibernated";
}

// "0", "512", "12.3M", "1.2G": three significant digits.
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

// A hibernated sandbox has no machine that counts.
static void add_counted(struct table *t, const json_t *sandbox, const char *key)
{
    if (str_eq(cli_text(sandbox, "depth"), "hibernate"))
        table_cell(t, "-");
    else
        add_bytes(t, sandbox, key);
}

static void add_row(struct table *t, const json_t *sandbox)
{
    const json_t *load = json_object_get(sandbox, "cpuPercent");
    char *percent auto_free =
        json_is_number(load) ? str_printf("%.1f", json_number_value(load)) : xstrdup("-");
    bool counts = !str_eq(cli_text(sandbox, "depth"), "hibernate");
    char *time auto_free =
        counts ? cli_span((int64_t)number_of(sandbox, "cpuSeconds")) : xstrdup("-");
    char *age auto_free = cli_span((int64_t)number_of(sandbox, "ageSeconds"));
    table_cell(t, cli_text(sandbox, "sandboxID"));
    table_cell(t, cli_text(sandbox, "templateID"));
    table_cell(t, stats_view_state(sandbox));
    table_cell(t, percent);
    table_cell(t, time);
    add_bytes(t, sandbox, "memoryBytes");
    add_bytes(t, sandbox, "diskBytes");
    add_counted(t, sandbox, "netInBytes");
    add_counted(t, sandbox, "netOutBytes");
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

// ---- the host
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

// Tell what is wrong with a sandbox's disk. The guest may not notice an error: what it wrote was in
// its page cache.
static void print_disk_trouble(const json_t *list, FILE *to)
{
    static const struct {
        const char *key, *text;
    } TROUBLES[] = {
        {"diskError", "the host could not read or write its disk, so files in it may be lost; "
                      "check the free space of the state directory"},
        {"diskFull", "it stands still because the host's disk is full; it goes on by itself once "
                     "the state directory has free space"},
    };
    size_t i = 0;
    const json_t *sandbox = NULL;
    json_array_foreach (list, i, sandbox)
        for (size_t t = 0; t < ARRAY_LEN(TROUBLES); t++)
            if (json_is_true(json_object_get(sandbox, TROUBLES[t].key)))
                fprintf(to, "\n%s: %s\n", cli_text(sandbox, "sandboxID"), TROUBLES[t].text);
}

void stats_view_print(const json_t *stats, enum stats_order order, FILE *to)
{
    const json_t *host = json_object_get(stats, "host");
    if (json_object_get(host, "memoryTotalBytes")) { // absent for the holder of an API key
        print_host(host, to);
        fputc('\n', to);
    }
    print_table(json_object_get(stats, "sandboxes"), order, to);
    print_disk_trouble(json_object_get(stats, "sandboxes"), to);
}

// Return whether the processor load of each running sandbox is known, which takes two measurements.
static bool stats_view_is_whole(const json_t *stats)
{
    size_t i = 0;
    const json_t *sandbox = NULL;
    json_array_foreach (json_object_get(stats, "sandboxes"), i, sandbox) {
        if (json_is_null(json_object_get(sandbox, "cpuPercent")))
            return false;
    }
    return true;
}

#define WINDOW_MS 1100 // the daemon measures every second; a load needs two measurements

static json_t *ask(struct connection *c, const char *id, struct err *e)
{
    const struct timespec window = {WINDOW_MS / 1000, WINDOW_MS % 1000 * 1000000L};
    json_t *first = connection_stats(c, id, e);
    if (!first || stats_view_is_whole(first))
        return first;
    json_decref(first);
    nanosleep(&window, NULL);
    return connection_stats(c, id, e);
}

static json_t *ask_about(struct connection *c, const char *given, struct err *e)
{
    if (connection_is_idle(c) && !given)
        return json_pack("{s:[]}", "sandboxes");
    char *id auto_free = given ? connection_resolve(c, given, e) : NULL;
    return given && !id ? NULL : ask(c, id, e);
}

int verb_stats(int argc, char **argv)
{
    bool as_json = false;
    struct backend_opts server = {0};
    const struct opt opts[] = {
        CLI_FLAG("json", &as_json, "print the API's JSON"),
    };
    const struct cli_usage usage = {
        .synopsis = "stats [--json] [ID]",
        .text = "Shows what all sandboxes, or one, use of this host: private memory, processor, "
                "disk and\n"
                "network; and what is left of the host. It measures for a second.",
        .opts = opts,
        .opt_count = ARRAY_LEN(opts),
        .server = &server,
    };
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    if (argc > 2)
        return cli_usage_error(
            "stats takes the id of one sandbox, or none; see cubby stats --help");
    struct err e = ERR_INIT;
    struct connection c;
    if (connection_open(&c, &server, CONNECT_STARTS_IF_USED, &e) < 0)
        return cli_fail(&e);
    json_t *stats = ask_about(&c, argc > 1 ? argv[1] : NULL, &e);
    if (stats && as_json) {
        cli_print_json(stats);
    } else if (stats) {
        stats_view_print(stats, STATS_BY_CPU, stdout);
    }
    connection_close(&c);
    json_decref(stats);
    return stats ? 0 : cli_fail(&e);
}
