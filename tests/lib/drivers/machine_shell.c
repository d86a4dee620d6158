// SPDX-License-Identifier: Apache-2.0
// The microvm driver as a program, for its tests: one command a line on stdin, one JSON object a
// line on stdout. Works on one machine.
//   facts TEMPLATE | create ID DIR TEMPLATE MODE [image=DIR] [cpus=N] [memory=MB] [disk=MB] |
//   usage | record | save DIR [stay] |
//   adopt ID DIR TEMPLATE RECORD [POLICY] |
//   abandon | kill | release | fds | pause | resume | policy POLICY
// MODE is none, public, or a policy as JSON without spaces, as POLICY is.
// End of input ends the program and leaves the machine as it is, as a daemon's sudden end would.
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/microvm/microvm.h"
#include "sandbox-backend/log/log.h"

#define WORDS_MAX 10

static uv_loop_t loop;
static struct machine *machine, *starting; // one of the two
static uint64_t asked_ns;

static void say(json_t *message)
{
    double ms = (double)(uv_hrtime() - asked_ns) / 1e6;
    json_object_set_new(message, "ms", json_real(ms));
    char *text auto_free = json_to_string(message);
    printf("%s\n", text);
    fflush(stdout);
    json_decref(message);
}

static void say_error(const char *what, const struct err *e)
{
    say(json_pack("{s:s, s:s, s:i, s:s}", "event", what, "error", e->msg, "code", (int)e->code,
                  "connect", err_connect_name(e->code)));
}

static void on_ready(struct machine *m, const struct err *e, void *ctx)
{
    (void)ctx;
    machine = m;
    starting = NULL;
    if (e)
        say_error("failed", e);
    else
        say(json_pack("{s:s, s:s}", "event", "ready", "vmnet", machine_vmnet(m)));
}

static void on_exit_(struct machine *m, const char *reason, void *ctx)
{
    (void)m;
    (void)ctx;
    say(json_pack("{s:s, s:s}", "event", "exit", "reason", reason));
}

static void on_gone(void *ctx)
{
    (void)ctx;
    machine = NULL;
    say(json_pack("{s:s}", "event", "gone"));
}

// How many descriptors this program has open.
static int count_fds(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (dir && readdir(dir))
        count++;
    if (dir)
        closedir(dir);
    return count - 3; // ".", "..", and the directory itself
}

static void facts(const char *template)
{
    struct machine_facts f;
    struct err e = ERR_INIT;
    if (microvm_driver.facts(template, &f, &e) != 0)
        say_error("failed", &e);
    else
        say(json_pack("{s:s, s:i, s:I, s:I, s:s}", "event", "facts", "cpus", f.cpus, "memory_mb",
                      (json_int_t)f.memory_mb, "disk_mb", (json_int_t)f.disk_mb, "accel", f.accel));
}

static int read_policy(struct net_policy *policy, const char *text, struct err *e)
{
    *policy = (struct net_policy){.internet = str_eq(text, "public")};
    if (!text || *text != '{')
        return 0;
    json_t *json = json_parse(text, strlen(text), e);
    int result = json ? net_policy_from_json(policy, json, e) : -1;
    json_decref(json);
    return result;
}

static void read_option(struct machine_spec *spec, const char *word)
{
    const char *value = strchr(word, '=') ? strchr(word, '=') + 1 : "";
    if (str_starts(word, "image="))
        spec->image = value;
    else if (str_starts(word, "cpus="))
        spec->size.cpus = atoi(value);
    else if (str_starts(word, "memory="))
        spec->size.memory_mb = atoi(value);
    else if (str_starts(word, "disk="))
        spec->size.disk_mb = atoi(value);
}

static void say_usage(void)
{
    struct machine_usage u;
    struct err e = ERR_INIT;
    if (machine_usage(machine, &u, &e) != 0)
        say_error("refused", &e);
    else
        say(json_pack("{s:s, s:I, s:I, s:I, s:I, s:I}", "event", "usage", "memory",
                      (json_int_t)u.memory_bytes, "cpu_ns", (json_int_t)u.cpu_ns, "disk",
                      (json_int_t)u.disk_bytes, "net_in", (json_int_t)u.net_in_bytes, "net_out",
                      (json_int_t)u.net_out_bytes));
}

static void make(char *words[WORDS_MAX])
{
    struct machine_spec spec = {.id = words[1], .dir = words[2], .template = words[3]};
    struct net_policy policy;
    struct err e = ERR_INIT;
    bool is_new = str_eq(words[0], "create");
    if (read_policy(&policy, words[is_new ? 4 : 5], &e) < 0) {
        say_error("failed", &e);
        return;
    }
    spec.policy = &policy;
    if (is_new) {
        for (int i = 5; i < WORDS_MAX && words[i]; i++)
            read_option(&spec, words[i]);
        starting = microvm_driver.create(&loop, &spec, on_ready, on_exit_, NULL);
    } else {
        json_t *record = json_parse(words[4], strlen(words[4]), NULL);
        microvm_driver.adopt(&loop, &spec, record, on_ready, on_exit_, NULL);
        json_decref(record);
    }
    net_policy_fini(&policy);
}

static void on_done(struct machine *m, const struct err *e, void *ctx)
{
    if (e)
        say_error("refused", e);
    else
        say(json_pack("{s:s, s:s, s:b}", "event", "done", "what", (const char *)ctx, "paused",
                      machine_is_paused(m)));
}

static void on_saved(struct machine *m, const struct machine_saved *saved, const struct err *e,
                     void *ctx)
{
    (void)ctx;
    if (e)
        say_error("refused", e);
    else
        say(json_pack("{s:s, s:I, s:I, s:b}", "event", "saved", "bytes", (json_int_t)saved->bytes,
                      "standstill_us", (json_int_t)saved->standstill_us, "paused",
                      machine_is_paused(m)));
}

static char PAUSE[] = "pause", RESUME[] = "resume", POLICY[] = "policy"; // what is asked

static void set_policy(const char *text)
{
    struct net_policy policy;
    struct err e = ERR_INIT;
    if (read_policy(&policy, text, &e) < 0)
        say_error("refused", &e);
    else
        machine_set_policy(machine, &policy, on_done, POLICY);
    net_policy_fini(&policy);
}

static void obey(char *line)
{
    char *words[WORDS_MAX] = {0};
    char *rest = line;
    for (int i = 0; i < WORDS_MAX - 1 && rest && *rest; i++)
        words[i] = strsep(&rest, " ");
    asked_ns = uv_hrtime();
    if (!words[0])
        return;
    if (str_eq(words[0], "facts") && words[1])
        facts(words[1]);
    else if ((str_eq(words[0], "create") || str_eq(words[0], "adopt")) && words[4])
        make(words);
    else if (str_eq(words[0], "usage") && machine)
        say_usage();
    else if (str_eq(words[0], "record") && machine)
        say(json_pack("{s:s, s:o}", "event", "record", "record", machine_record(machine)));
    else if (str_eq(words[0], "abandon") && starting)
        machine_abandon(starting);
    else if (str_eq(words[0], "kill") && machine)
        machine_kill(machine, on_gone, NULL);
    else if (str_eq(words[0], "release") && machine)
        machine_release(machine, on_gone, NULL);
    else if (str_eq(words[0], "pause") && machine)
        machine_pause(machine, on_done, PAUSE);
    else if (str_eq(words[0], "resume") && machine)
        machine_resume(machine, on_done, RESUME);
    else if (str_eq(words[0], "policy") && machine && words[1])
        set_policy(words[1]);
    else if (str_eq(words[0], "save") && machine && words[1])
        machine_save(machine, words[1], str_eq(words[2], "stay") ? SAVE_IN_PLACE : SAVE_TO_KEEP,
                     NULL, on_saved, NULL);
    else if (str_eq(words[0], "fds"))
        say(json_pack("{s:s, s:i}", "event", "fds", "count", count_fds()));
    else
        say(json_pack("{s:s}", "event", "bad command"));
}

static char line[8192];
static size_t line_len;

static void on_input(uv_poll_t *poll, int status, int events)
{
    (void)events;
    char chunk[4096];
    ssize_t n = status < 0 ? 0 : read(STDIN_FILENO, chunk, sizeof chunk);
    if (n <= 0) {
        uv_poll_stop(poll);
        uv_stop(&loop);
        return;
    }
    for (ssize_t i = 0; i < n; i++) {
        if (chunk[i] != '\n') {
            line[line_len] = chunk[i];
            line_len += line_len < sizeof line - 1;
            continue;
        }
        line[line_len] = '\0';
        line_len = 0;
        obey(line);
    }
}

int main(void)
{
    uv_poll_t input;
    signal(SIGPIPE, SIG_IGN);
    log_set_level(LOG_DEBUG);
    uv_loop_init(&loop);
    uv_poll_init(&loop, &input, STDIN_FILENO);
    uv_poll_start(&input, UV_READABLE, on_input);
    uv_run(&loop, UV_RUN_DEFAULT);
    return 0;
}
