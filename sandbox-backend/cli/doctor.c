// SPDX-License-Identifier: Apache-2.0
// cubby doctor: check this host, and say what to do about what is missing.
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/connection.h"
#include "sandbox-backend/cli/doctor.h"
#include "sandbox-backend/drivers/template_dirs.h"
#include "sandbox-backend/drivers/tier.h"

static const char *const LEVEL_NAMES[] = {"ok", "note", "missing"};

void doctor_ok(struct doctor *d, const char *name, const char *fmt, ...)
{
    assert(d->count < FINDINGS_MAX);
    va_list ap;
    va_start(ap, fmt);
    d->findings[d->count++] = (struct finding){.name = name, .text = str_vprintf(fmt, ap)};
    va_end(ap);
}

void doctor_add(struct doctor *d, enum finding_level level, const char *name, const char *remedy,
                const char *fmt, ...)
{
    assert(d->count < FINDINGS_MAX);
    va_list ap;
    va_start(ap, fmt);
    d->findings[d->count++] = (struct finding){.name = name,
                                               .level = level,
                                               .text = str_vprintf(fmt, ap),
                                               .remedy = remedy ? xstrdup(remedy) : NULL};
    va_end(ap);
}

static void print_table(const struct doctor *d)
{
    struct table t;
    table_init(&t, 3);
    for (int i = 0; i < d->count; i++) {
        const struct finding *f = &d->findings[i];
        table_cell(&t, LEVEL_NAMES[f->level]);
        table_cell(&t, f->name);
        table_cell(&t, f->text);
        if (f->remedy) {
            table_cell(&t, "");
            table_cell(&t, "");
            table_cell(&t, f->remedy);
        }
    }
    table_print(&t, stdout);
    table_fini(&t);
}

static void print_json(const struct doctor *d)
{
    json_t *list = json_array();
    for (int i = 0; i < d->count; i++) {
        const struct finding *f = &d->findings[i];
        json_t *item = json_pack("{s:s, s:s}", "name", f->name, "level", LEVEL_NAMES[f->level]);
        json_object_set_new(item, "text", json_lossy_string(f->text, strlen(f->text)));
        if (f->remedy)
            json_object_set_new(item, "remedy", json_lossy_string(f->remedy, strlen(f->remedy)));
        json_array_append_new(list, item);
    }
    cli_print_json(list);
    json_decref(list);
}

static void add_finding(void *ctx, enum finding_level level, const char *name, const char *remedy,
                        const char *text)
{
    struct doctor *d = ctx;
    d->has_template |= level == FINDING_OK && str_eq(name, "template");
    doctor_add(d, level, name, remedy, "%s", text);
}

// ---- the daemon, if it runs

static long long mb_of(const json_t *host, const char *key)
{
    return (long long)json_integer_value(json_object_get(host, key)) >> 20;
}

// How much room the daemon has for new sandboxes.
static void look_at_room(struct doctor *d, struct connection *c)
{
    struct err e = ERR_INIT;
    json_t *stats = connection_stats(c, NULL, &e);
    const json_t *host = json_object_get(stats, "host");
    long long left = mb_of(host, "memoryFreeBytes");
    long long reserve = mb_of(host, "memoryReserveBytes");
    long long pooled = (long long)json_integer_value(json_object_get(host, "pooled"));
    if (host && left > 0)
        doctor_ok(d, "room", "%lld MB for new sandboxes above the reserve of %lld MB; %lld pooled",
                  left, reserve, pooled);
    else if (host)
        doctor_add(d, FINDING_NOTE, "room",
                   "kill or hibernate sandboxes (cubby top), or start cubbyd with a lower "
                   "--memory-reserve",
                   "no memory for new sandboxes above the reserve of %lld MB; %lld pooled", reserve,
                   pooled);
    json_decref(stats);
}

// The daemon gave no list.
static void report_other(struct doctor *d, const struct err *e)
{
    enum daemon_phase phase = DAEMON_NONE;
    if (!daemon_phase_explains(d->home, e, &phase))
        doctor_add(d, FINDING_MISSING, "daemon",
                   "see cubbyd.log in the state directory; cubby daemon stop, and try again",
                   "cubbyd gives no valid answer: %s", e->msg);
    else if (phase == DAEMON_NONE)
        doctor_ok(d, "daemon", "does not run; the first use starts it");
    else if (phase == DAEMON_STOPS)
        doctor_ok(d, "daemon", "is stopping; the next use starts another");
    else
        doctor_add(d, FINDING_NOTE, "daemon",
                   "if it stays so, see cubbyd.log in the state directory", "is starting");
}

// Ask the daemon without starting it: it need not run.
static void examine_daemon(struct doctor *d)
{
    struct err e = ERR_INIT;
    struct connection c;
    const struct backend_opts here = {0};
    if (!d->home || connection_open(&c, &here, CONNECT_NEVER_STARTS, &e) < 0)
        return;
    json_t *list = connection_list(&c, &e);
    char *url auto_free = list ? daemon_url(d->home) : NULL;
    if (list)
        doctor_ok(d, "daemon", "runs, with %zu sandboxes; TCP: %s", json_array_size(list),
                  url ? url : "none");
    else
        report_other(d, &e);
    if (list)
        look_at_room(d, &c);
    json_decref(list);
    connection_close(&c);
}

// ---- the verb

// Which tier `auto` takes, and why not a better one.
static void look_at_tier(struct doctor *d)
{
    struct err e = ERR_INIT;
    struct machine_facts facts;
    char *dir auto_free = d->home ? template_dirs_find(d->home, "default") : NULL;
    if (!dir || !file_exists(dir))
        return;
    const struct tier_wish wish = {.tier = TIER_AUTO};
    if (tier_facts(dir, &wish, &facts, &e) < 0)
        doctor_add(d, FINDING_MISSING, "tier", NULL, "no tier can run template \"default\": %s",
                   e.msg);
    else
        doctor_ok(d, "tier", "auto chooses %s%s%s%s for template \"default\": %s",
                  facts.driver->name, facts.accel[0] ? " (" : "", facts.accel,
                  facts.accel[0] ? ")" : "", facts.reason);
}

static void examine(struct doctor *d)
{
    struct err e = ERR_INIT;
    d->home = home_open(&e);
    if (d->home)
        doctor_ok(d, "state", "%s", d->home);
    else
        doctor_add(d, FINDING_MISSING, "state", "set CUBBY_HOME to a directory you can write to",
                   "%s", e.msg);
    for (size_t i = 0; DRIVERS[i]; i++)
        if (DRIVERS[i]->doctor)
            DRIVERS[i]->doctor(d->home, add_finding, d);
    look_at_tier(d);
    doctor_host(d);
    examine_daemon(d);
}

static int verdict(const struct doctor *d)
{
    int status = 0;
    for (int i = 0; i < d->count; i++)
        if (d->findings[i].level == FINDING_MISSING)
            status = 1;
    return status;
}

static void doctor_fini(struct doctor *d)
{
    for (int i = 0; i < d->count; i++) {
        free(d->findings[i].text);
        free(d->findings[i].remedy);
    }
    free(d->home);
}

int verb_doctor(int argc, char **argv)
{
    bool as_json = false;
    const struct opt opts[] = {
        CLI_FLAG("json", &as_json, "print JSON"),
    };
    const struct cli_usage usage = {
        .synopsis = "doctor [--json]",
        .text =
            "Checks what sandboxes need on this host, and says what to do about each thing that "
            "is\n"
            "missing or could be better. The exit status is 1 when something needed is missing.",
        .opts = opts,
        .opt_count = ARRAY_LEN(opts),
    };
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    if (argc > 1)
        return cli_usage_error("doctor takes no operand; see cubby doctor --help");
    struct doctor d = {0};
    examine(&d);
    if (as_json)
        print_json(&d);
    else
        print_table(&d);
    int status = verdict(&d);
    doctor_fini(&d);
    return status;
}
