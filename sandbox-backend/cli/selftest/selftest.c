// SPDX-License-Identifier: Apache-2.0
// cubby selftest: prove that sandboxes work on this host, and measure them.
#include "sandbox-backend/cli/selftest/selftest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/drivers/host/tool.h"

#define REPORT_FORMAT 1
#define EXIT_CANCELED 130

static const struct {
    const char *name;
    selftest_step run;
} STEPS[] = {
    {"daemon", step_daemon},   {"create", step_create},     {"exec", step_exec},
    {"files", step_files},     {"python", step_python},     {"pause", step_pause},
    {"network", step_network}, {"walls", step_walls},       {"hibernate", step_hibernate},
    {"wake", step_wake},       {"snapshot", step_snapshot}, {"rollback", step_rollback},
    {"fork", step_fork},       {"burst", step_burst},       {"adopt", step_adopt},
    {"pool", step_pool},       {"end", step_end},
};
#define STEPS_WITHOUT_SANDBOX 2 // the first, after which every step needs t->id

// ---- times

double selftest_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

void selftest_time(struct selftest *t, const char *list, double ms)
{
    json_t *times = json_object_get(t->times, list);
    if (!times)
        json_object_set_new(t->times, list, times = json_array());
    json_array_append_new(times, json_real((double)(int64_t)(ms * 10) / 10));
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double selftest_median(const struct selftest *t, const char *list)
{
    const json_t *times = json_object_get(t->times, list);
    size_t n = json_array_size(times);
    double *sorted auto_free = xcalloc(n + 1, sizeof *sorted);
    for (size_t i = 0; i < n; i++)
        sorted[i] = json_number_value(json_array_get(times, i));
    qsort(sorted, n, sizeof *sorted, compare);
    return n ? (sorted[(n - 1) / 2] + sorted[n / 2]) / 2 : 0;
}

// ---- the report

// An error may name a path of this user. The report has "~" instead.
static char *anonymous(const struct selftest *t, const char *text)
{
    const char *home = getenv("HOME");
    char *inner auto_free = str_replace(text, t->home ? t->home : "", "$CUBBY_HOME");
    char *outer auto_free = str_replace(inner, t->user_home ? t->user_home : "", "$CUBBY_HOME");
    bool is_short = !home || strlen(home) < 2;
    return str_replace(outer, is_short ? "" : home, "~");
}

static bool add_step(json_t *steps, const struct selftest *t, const char *name, int rc, double ms,
                     const struct buf *said, const struct err *e)
{
    char *text auto_free = anonymous(t, rc < 0 ? e->msg : buf_str(said));
    const char *result = rc < 0 ? "FAILED" : rc == STEP_SKIPPED ? "skipped" : "ok";
    json_array_append_new(steps, json_pack("{s:s, s:s, s:f, s:o}", "step", name, "result", result,
                                           "ms", (double)(int64_t)(ms * 10) / 10, "text",
                                           json_lossy_string(text, strlen(text))));
    return rc >= 0;
}

// Run the steps in order. A failed step does not stop those after it, unless nothing is left to
// test.
static bool run_steps(struct selftest *t, json_t *steps, bool quiet)
{
    bool passed = true;
    for (size_t i = 0; i < ARRAY_LEN(STEPS); i++) {
        bool is_end = STEPS[i].run == step_end;
        if (!is_end && tool_interrupted())
            continue;
        if (!is_end && (i > 0 && !t->is_connected))
            continue;
        if (!is_end && i >= STEPS_WITHOUT_SANDBOX && !t->id)
            continue;
        struct err e = ERR_INIT;
        struct buf said auto_buf = BUF_INIT;
        if (!quiet)
            fprintf(stderr, "\r%-12s", STEPS[i].name);
        double began = selftest_ms();
        int rc = STEPS[i].run(t, &said, &e);
        passed &= add_step(steps, t, STEPS[i].name, rc, selftest_ms() - began, &said, &e);
    }
    if (!quiet)
        fputs("\r            \r", stderr);
    return passed;
}

static json_t *make_report(struct selftest *t, bool quiet, struct err *e)
{
    if (home_begin(t, e) < 0)
        return NULL;
    json_t *report = report_host();
    json_t *steps = json_array();
    double bare = report_bare_qemu(t);
    bool passed = run_steps(t, steps, quiet);
    json_object_set_new(report, "format", json_integer(REPORT_FORMAT));
    json_object_set_new(report, "template", json_string(t->template));
    json_object_set_new(report, "tier", json_string(cli_text(t->sandbox, "isolation")));
    json_object_set_new(report, "bareQemuMs", bare > 0 ? json_real(bare) : json_null());
    json_object_set_new(report, "createMs", json_real(selftest_median(t, "sequentialMs")));
    json_object_set_new(report, "timeToFirstCommand", json_incref(t->times));
    json_object_set_new(report, "steps", steps);
    json_object_set_new(report, "passed", json_boolean(passed));
    return report;
}

static void selftest_fini(struct selftest *t)
{
    free(t->user_home);
    free(t->home);
    free(t->id);
    free(t->snapshot);
    json_decref(t->sandbox);
    json_decref(t->times);
}

static int run_selftest(struct selftest *t, bool as_json, bool quiet)
{
    struct err e = ERR_INIT;
    t->times = json_object();
    // After Ctrl-C the step under way ends, then the daemon and the directory of the test.
    tool_watch_signals();
    json_t *report = make_report(t, quiet, &e);
    bool interrupted = tool_interrupted();
    tool_unwatch_signals();
    int status = !report ? cli_fail(&e) : json_is_true(json_object_get(report, "passed")) ? 0 : 1;
    if (report && as_json)
        cli_print_json(report);
    else if (report)
        report_print(report);
    json_decref(report);
    if (err_is(&e) && t->home) // home_begin failed half way
        home_end(t, NULL);
    selftest_fini(t);
    return interrupted ? EXIT_CANCELED : status;
}

int verb_selftest(int argc, char **argv)
{
    bool as_json = false;
    struct selftest t = {.template = "default"};
    const struct opt opts[] = {
        CLI_STRING("template", &t.template, "NAME", "the template to test (default: default)"),
        CLI_STRING("tier", &t.tier, "TIER", "the tier to test (default: the daemon's choice)"),
        CLI_FLAG("json", &as_json, "print JSON"),
    };
    const struct cli_usage usage = {
        .synopsis = "selftest [--json] [--template NAME] [--tier TIER]",
        .text =
            "Proves in less than a minute that sandboxes work on this host, and measures them.\n"
            "The test has a state directory and a daemon of its own, so it touches none of "
            "your\n"
            "sandboxes. The report has no names and no addresses: you can send it to others.\n"
            "The exit status is 0 when every step passed, 1 when one failed, 130 after Ctrl-C.",
        .opts = opts,
        .opt_count = ARRAY_LEN(opts),
    };
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    if (argc > 1)
        return cli_usage_error("selftest takes no operand; see cubby selftest --help");
    return run_selftest(&t, as_json, as_json || !isatty(STDERR_FILENO));
}
