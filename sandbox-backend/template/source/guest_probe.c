// SPDX-License-Identifier: Apache-2.0
// What a guest has whose files are not of Cubby's list of packages.
#include "sandbox-backend/template/source/guest_probe.h"

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/template/call.h"

#define PROBE_MS 60000

static const char PYTHON[] = "if ! python3 -c 1 >/dev/null 2>&1; then echo none\n"
                             "elif [ -d /usr/lib/cubby/kernel ]; then echo warm\n"
                             "else echo fresh; fi";

// A package manager that is missing prints nothing.
static const char PACKAGES[] =
    "{ dpkg-query -W -f '${Package} ${Version}\\n'; rpm -qa --qf '%{NAME} %{VERSION}\\n'\n"
    "apk info -v | sed 's/-\\([0-9][^-]*-r[0-9]*\\)$/ \\1/'\n"
    "python3 -c 'import sys; print(\"python3 %d.%d.%d\" % sys.version_info[:3])'; } 2>/dev/null; :";

static int ask(struct pump *p, const char *vmnet, const char *user, const char *script,
               struct buf *out, struct err *e)
{
    const char *args[] = {"-l", "-c", script, NULL};
    const struct call_command command = {
        .user = user, .cmd = "/bin/bash", .args = args, .timeout_ms = PROBE_MS};
    return call_run(p, vmnet, &command, out, e);
}

// The default user must exist, and be able to enter the default directory.
static int check_user(struct pump *p, const char *vmnet, struct err *e)
{
    struct buf out auto_buf = BUF_INIT;
    return ask(p, vmnet, NULL, ":", &out, e) < 0
               ? err_wrap(e, "a command of the template's user in its directory")
               : 0;
}

int guest_probe(struct pump *p, const char *vmnet, enum guest_python *python, struct buf *packages,
                struct err *e)
{
    struct buf answer auto_buf = BUF_INIT;
    if (check_user(p, vmnet, e) < 0 || ask(p, vmnet, "user", PYTHON, &answer, e) < 0 ||
        ask(p, vmnet, "root", PACKAGES, packages, e) < 0)
        return err_wrap(e, "look at the guest");
    *python = str_starts(buf_str(&answer), "warm")    ? GUEST_PYTHON_WARM
              : str_starts(buf_str(&answer), "fresh") ? GUEST_PYTHON_FRESH
                                                      : GUEST_PYTHON_NONE;
    return 0;
}
