// SPDX-License-Identifier: Apache-2.0
// The proof that a template works: one sandbox is restored from it and runs a command.
#include "sandbox-backend/template/verify.h"

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/template/call.h"
#include "sandbox-backend/template/setup.h"
#include "sandbox-backend/template/trial.h"

#define COMMAND_MS 20000

#define ASK_BASH "echo $((6*7))"
#define ASK_PYTHON                                                                             \
    "exec python3 -c 'import json, urllib.request as u\n"                                      \
    "r = u.urlopen(\"http://127.0.0.1:49999/execute\", b\"{\\\"code\\\":\\\"6*7\\\"}\", 15)\n" \
    "for line in r:\n"                                                                         \
    "    text = json.loads(line).get(\"text\")\n"                                              \
    "    text and print(text)'"

static int ask(struct pump *p, const struct trial *t, bool python, struct err *e)
{
    const char *args[] = {"-l", "-c", python ? ASK_PYTHON : ASK_BASH, NULL};
    struct call_command command = {
        .user = TEMPLATE_USER, .cmd = "/bin/bash", .args = args, .timeout_ms = COMMAND_MS};
    struct buf out auto_buf = BUF_INIT;
    if (call_run(p, trial_vmnet(t), &command, &out, e) < 0)
        return -1;
    return str_eq(buf_str(&out), "42\n")
               ? 0
               : err_set(e, ERR_INTERNAL,
                         "its test command printed \"%s\", not \"42\": build the template again",
                         buf_str(&out));
}

int template_verify(struct pump *p, const struct driver *driver, const char *dir, bool python,
                    struct err *e)
{
    struct trial *t = trial_start(p, driver, dir, e);
    int result = t ? ask(p, t, python, e) : -1;
    if (t && trial_close(t, result == 0 ? e : NULL) < 0)
        result = -1;
    return result < 0 ? err_wrap(e, "a sandbox restored from the new template") : 0;
}
