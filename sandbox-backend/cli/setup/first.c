// SPDX-License-Identifier: Apache-2.0
// cubby without a verb: what to do next on this machine.
#include <stdio.h>
#include <stdlib.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/version.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/setup/setup.h"
#include "sandbox-backend/drivers/host/arch.h"
#include "sandbox-backend/drivers/host/tool.h"
#include "sandbox-backend/drivers/template_dirs.h"
#include "sandbox-backend/host/distribution.h"

bool first_has_template(const char *home)
{
    char *dir auto_free = template_dirs_find(home, "default");
    char *path auto_free = str_printf("%s/template.json", dir);
    return file_exists(path);
}

static void say(const char *command, const char *what)
{
    printf("  %-38s %s\n", command, what);
}

static bool say_clients(void)
{
    bool any = false;
    for (const struct setup_client *c = NULL; (c = setup_client_next(c));) {
        if (setup_client_is_configured(c)) {
            printf("%s uses Cubby.\n", c->title);
            any = true;
        }
    }
    return any;
}

// The clients of this machine that do not use Cubby yet.
static void offer_clients(bool any_configured)
{
    bool any = false;
    for (const struct setup_client *c = NULL; (c = setup_client_next(c));) {
        if (!setup_client_is_used(c) || setup_client_is_configured(c))
            continue;
        char *command auto_free = str_printf("cubby setup --client %s", c->name);
        char *what auto_free = str_printf("let %s use Cubby", c->title);
        say(command, what);
        any = true;
    }
    if (!any && !any_configured)
        say("cubby setup --client NAME", "let an MCP client use Cubby");
}

static void say_daemon(const char *home)
{
    enum daemon_phase phase = DAEMON_NONE;
    struct err e = ERR_INIT;
    if (daemon_phase(home, &phase, &e) < 0)
        printf("%s.\n", e.msg);
    else
        puts(phase == DAEMON_NONE ? "The daemon does not run; the first use starts it."
                                  : "The daemon runs.");
}

static char *qemu(struct err *e)
{
    const char *set = getenv("CUBBY_QEMU");
    return set && *set ? xstrdup(set) : tool_find(ARCH_QEMU, ARCH_QEMU_PACKAGE, e);
}

int first_contact(void)
{
    struct err e = ERR_INIT;
    char *home auto_free = home_open(&e);
    if (!home)
        return cli_fail(&e);
    puts("Cubby " CUBBY_VERSION ": sandboxes for AI agents.\n");
    char *program auto_free = qemu(&e);
    bool ready = first_has_template(home);
    puts(ready ? "The template \"default\" is there."
               : "There is no template yet, from which sandboxes start.");
    say_daemon(home);
    bool configured = say_clients();
    puts("\nNext:");
    char *install auto_free = program ? NULL : distribution_install("qemu-system-x86 qemu-utils");
    if (install)
        say(install, "QEMU is missing");
    if (!ready)
        say("cubby setup", "make the template, once");
    offer_clients(configured);
    if (ready) {
        say("cubby selftest", "prove in a minute that sandboxes work here");
        say("cubby create", "start a sandbox, and print its id");
    }
    say("cubby doctor", "what this machine lacks");
    say("cubby --help", "all verbs");
    return 0;
}
