// SPDX-License-Identifier: Apache-2.0
// What is done in a guest before it is saved.
//
// The start command is started through envd, like a user's background command, so it is a child of
// envd in every sandbox. The build leaves it running when the guest is saved.
#include "sandbox-backend/template/setup.h"

#include <inttypes.h>
#include <stdio.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/template/call.h"

#define SHELL         "/bin/bash" // envd takes /bin/sh where there is none
#define SETTINGS_PATH "/init"
// The Python kernel's user and directory (guest/python_kernel.h).
#define DEFAULTS_PATH "/usr/lib/cubby/defaults"
#define PYTHON_MS     30000
#define START_MS      30000
#define READY_MS      300000 // how long a start command may take
#define READY_ONE_MS  30000  // one run of the ready command
#define READY_LOOK_MS 250
#define STEADY_MS     2000 // without a ready command, it must live for so long

// A login shell sets PATH itself, and would forget that of the image.
#define PROFILE "/etc/profile.d/zz-cubby-path.sh"

static int set_path(struct pump *p, const char *vmnet, const char *path, struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    char *word auto_free = str_shell_word(path);
    buf_printf(&text, "PATH=%s\nexport PATH\n", word);
    return call_put(p, vmnet, PROFILE, &text, e);
}

// A disk of a user's may have the file of another template, so it is written for each.
static int set_defaults(struct pump *p, const char *vmnet, const struct template_setup *setup,
                        struct err *e)
{
    const struct template_environment *env = &setup->environment;
    struct buf text auto_buf = BUF_INIT;
    if (!setup->foreign && !env->user && !env->directory)
        return 0;
    buf_adds(&text, env->user ? env->user : TEMPLATE_USER);
    buf_addc(&text, '\0');
    buf_adds(&text, env->directory ? env->directory : "");
    buf_addc(&text, '\0');
    return call_put(p, vmnet, DEFAULTS_PATH, &text, e);
}

int setup_settings(struct pump *p, const char *vmnet, const struct template_setup *setup,
                   struct err *e)
{
    const struct template_environment *env = &setup->environment;
    const char *path = json_string_value(json_object_get(env->variables, "PATH"));
    if (!env->variables && !env->directory && !env->user && !setup->disk_mb && !setup->start &&
        !setup->foreign)
        return 0; // the daemon tells each sandbox the defaults
    json_t *body = json_pack("{s:s}", "defaultUser", env->user ? env->user : TEMPLATE_USER);
    if (env->variables)
        json_object_set(body, "envVars", env->variables);
    if (env->directory)
        json_object_set_new(body, "defaultWorkdir", json_string(env->directory));
    if (setup->disk_mb)
        json_object_set_new(body, "diskSizeMB", json_integer(setup->disk_mb));
    if (call_post(p, vmnet, SETTINGS_PATH, body, e) < 0)
        return err_wrap(e, "the guest's settings");
    if (set_defaults(p, vmnet, setup, e) < 0)
        return -1;
    return path ? set_path(p, vmnet, path, e) : 0;
}

// kill is a builtin of each shell. init starts no second Python kernel.
int setup_python(struct pump *p, const char *vmnet, struct err *e)
{
    struct buf out auto_buf = BUF_INIT;
    const char *args[] = {"-l", "-c", "kill -HUP 1", NULL};
    const struct call_command command = {
        .user = "root", .cmd = SHELL, .args = args, .timeout_ms = PYTHON_MS};
    return call_run(p, vmnet, &command, &out, e) < 0 ? err_wrap(e, "start the Python kernel") : 0;
}

// ---- the start command
struct starting {
    struct pump *pump;
    const char *vmnet;
    const struct template_setup *setup;
    struct call *call; // of the start command
    struct buf out;    // its output
    int64_t began_ms;
};

static int fail_with_output(const struct starting *s, const char *what, struct err *e)
{
    char *line auto_free = call_last_line(&s->out);
    return err_set(e, ERR_INVALID, "the start command \"%.200s\" %s%s%.300s", s->setup->start, what,
                   *line ? "; its last output was: " : "", line);
}

// A command that ends with 0 may have started a server in the background.
static int check_alive(const struct starting *s, struct err *e)
{
    int64_t code;
    char what[64];
    if (!call_has_ended(s->call, &code) || code == 0)
        return 0;
    snprintf(what, sizeof what, "ended with status %" PRId64, code);
    return fail_with_output(s, what, e);
}

// Return 1 if the command is ready, 0 if not yet, -1 if the build is to end.
static int ask_ready(const struct starting *s, struct err *e)
{
    struct buf out auto_buf = BUF_INIT;
    struct err why = ERR_INIT;
    const char *args[] = {"-l", "-c", s->setup->ready, NULL};
    const struct call_command command = {.cmd = SHELL, .args = args, .timeout_ms = READY_ONE_MS};
    int64_t lived_ms = clock_mono_ms() - s->began_ms;
    if (!s->setup->ready)
        return lived_ms >= STEADY_MS;
    if (call_run(s->pump, s->vmnet, &command, &out, &why) == 0)
        return 1;
    if (why.code == ERR_CANCELED || err_is(&s->pump->dead))
        return err_set(e, why.code, "%s", why.msg);
    return 0;
}

static int await_ready(const struct starting *s, struct err *e)
{
    for (;;) {
        int ready = check_alive(s, e) < 0 ? -1 : ask_ready(s, e);
        if (ready)
            return ready < 0 ? -1 : check_alive(s, e);
        if (clock_mono_ms() - s->began_ms >= READY_MS) {
            char what[96];
            snprintf(what, sizeof what, "was not ready within %d s", READY_MS / 1000);
            return fail_with_output(s, what, e);
        }
        if (pump_pause(s->pump, READY_LOOK_MS, e) < 0)
            return -1;
    }
}

int setup_start(struct pump *p, const char *vmnet, const struct template_setup *setup,
                struct err *e)
{
    const char *args[] = {"-l", "-c", setup->start, NULL};
    const struct call_command command = {.cmd = SHELL, .args = args, .timeout_ms = START_MS};
    struct starting s = {
        .pump = p, .vmnet = vmnet, .setup = setup, .out = BUF_INIT, .began_ms = clock_mono_ms()};
    if (!setup->start)
        return 0;
    s.call = call_begin(p, vmnet, &command, &s.out, e);
    int result = s.call ? await_ready(&s, e) : err_wrap(e, "the start command");
    if (s.call)
        call_leave(s.call);
    (void)fd_write_all(setup->log, buf_str(&s.out), s.out.len, NULL);
    buf_fini(&s.out);
    return result;
}
