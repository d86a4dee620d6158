// SPDX-License-Identifier: Apache-2.0
// cubby setup: make this machine ready, and let MCP clients use Cubby.
#include "sandbox-backend/cli/setup/setup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/drivers/host/tool.h"
#include "sandbox-backend/drivers/template_dirs.h"

struct setup_options {
    struct opt_list clients;
    bool yes, service, prepare;
};

static int edit(const struct setup_client *client, const char *text, json_t *entry, struct buf *out,
                struct err *e)
{
    switch (client->format) {
    case FORMAT_TOML:
        return edit_toml(text, client->section, entry, out, e);
    case FORMAT_YAML:
        return edit_yaml(text, client->section, entry, out, e);
    case FORMAT_JSON:
        break;
    }
    return edit_json(text, client->section, entry, out, e);
}

// ---- writing it

// Say what to add by hand where no editor can.
static int refuse(const char *path, const struct setup_client *client, json_t *entry,
                  const struct err *why)
{
    struct buf text auto_buf = BUF_INIT;
    fprintf(stderr, "cubby: %s was not changed: ", path);
    cli_print_safe(stderr, why->msg);
    fputs(".\nAdd this by hand:\n\n", stderr);
    if (edit(client, "", entry, &text, NULL) == 0)
        fputs(buf_str(&text), stderr);
    return 1;
}

static int apply(const char *path, const struct buf *before, const struct buf *after, bool yes)
{
    struct err e = ERR_INIT;
    int result = change_apply(path, before, after, yes, &e);
    if (result < 0)
        return cli_fail(&e);
    if (result == CHANGE_WRITTEN)
        printf("\nWritten. Start the client again.\n");
    return result == CHANGE_REFUSED;
}

static void say_launcher(const json_t *command)
{
    if (json_array_size(command) > 1)
        printf("This program is in the cache of a launcher, which may be emptied. So the entry "
               "starts it with %s, by the name of its package.\n\n",
               json_string_value(json_array_get(command, 0)));
}

static int setup_client(const struct setup_options *o)
{
    struct err e = ERR_INIT;
    struct buf before auto_buf = BUF_INIT;
    struct buf after auto_buf = BUF_INIT;
    const struct setup_client *client = setup_client_find(o->clients.items[0]);
    if (o->clients.count > 1)
        return cli_usage_error("--client names one client; run cubby setup again for \"%s\"",
                               o->clients.items[1]);
    if (!client)
        return cli_usage_error("unknown client \"%s\"; see cubby setup --help",
                               o->clients.items[0]);
    char *path auto_free = setup_client_path(client, &e);
    if (!path || change_read(path, &before, &e) < 0)
        return cli_fail(&e);
    json_t *command = setup_server_command(&e);
    json_t *entry = command ? entry_new(client, command) : NULL;
    say_launcher(command);
    json_decref(command);
    if (!entry)
        return cli_fail(&e);
    int status = edit(client, buf_str(&before), entry, &after, &e) < 0
                     ? refuse(path, client, entry, &e)
                     : apply(path, &before, &after, o->yes);
    json_decref(entry);
    return status;
}

// ---- this machine

// Tell whether the template is for all users: root's, unless root named a home of its own. The
// service never reads root's home, so it always needs one for all.
static bool is_for_all(const struct setup_options *o)
{
    const char *home = getenv("CUBBY_HOME");
    bool own = home && *home && !o->service;
    char *system auto_free = geteuid() == 0 && !own ? template_dirs_system_path(NULL) : NULL;
    return system != NULL;
}

// Tell whether the template is where setup would put it, or goes before it.
static bool has_template(const struct setup_options *o, const char *home)
{
    if (!o->service || geteuid() != 0)
        return first_has_template(home);
    char *system auto_free = template_dirs_system(home);
    char *path auto_free = system ? str_printf("%s/default/template.json", system) : NULL;
    return path && file_exists(path);
}

static int make_template(const struct setup_options *o, const char *home)
{
    if (!has_template(o, home))
        return setup_template(is_for_all(o));
    puts("template: \"default\" is there");
    return 0;
}

static int start_service(void)
{
    const char *const all[] = {"systemctl", "enable", "--now", "cubbyd.service", NULL};
    const char *const own[] = {"systemctl", "--user", "enable", "--now", "cubbyd.service", NULL};
    const struct tool tool = {.argv = geteuid() == 0 ? all : own,
                              .package = "systemd",
                              .out = STDOUT_FILENO,
                              .log = STDERR_FILENO,
                              .keep = -1};
    struct err e = ERR_INIT;
    if (tool_run(&tool, &e) < 0) {
        err_wrap(&e, "start the service");
        return cli_fail(&e);
    }
    puts("service: cubbyd runs, and starts with this machine or session");
    return 0;
}

static void print_clients(void)
{
    puts("\nTo let a client use Cubby:");
    for (const struct setup_client *c = NULL; (c = setup_client_next(c));)
        printf("  cubby setup --client %-15s %s%s\n", c->name, c->title,
               setup_client_is_configured(c) ? " (uses Cubby already)"
               : setup_client_is_used(c)     ? " (is on this machine)"
                                             : "");
}

static int setup_machine(const struct setup_options *o)
{
    struct err e = ERR_INIT;
    static const char *const DOCTOR[] = {"doctor"};
    char *home auto_free = home_open(&e);
    if (!home)
        return cli_fail(&e);
    int status = make_template(o, home);
    if (status == 0 && o->service)
        status = start_service();
    if (status != 0)
        return status;
    puts("Sandboxes can start now.");
    setup_finish(home);
    putchar('\n');
    fflush(stdout);
    status = setup_run(verb_doctor, DOCTOR, 1);
    print_clients();
    return status;
}

static int prepare(const struct setup_options *o)
{
    struct err e = ERR_INIT;
    if (o->clients.count || o->service || o->yes)
        return cli_usage_error("--prepare takes no other option");
    char *home auto_free = home_open(&e);
    return home ? setup_prepare(home) : cli_fail(&e);
}

int verb_setup(int argc, char **argv)
{
    struct setup_options o = {0};
    const struct opt opts[] = {
        CLI_LIST("client", &o.clients, "NAME",
                 "let this client use Cubby: claude-code, claude-desktop, cursor, vscode, codex, "
                 "gemini, zed or goose"),
        CLI_FLAG("yes", &o.yes, "write the client's file without asking"),
        CLI_FLAG("service", &o.service, "run cubbyd as a service of systemd"),
        CLI_FLAG("prepare", &o.prepare,
                 "only make the template, and print to prepare.log in the state directory"),
    };
    const struct cli_usage usage = {
        .synopsis = "setup [--service]\n"
                    "       cubby setup --client NAME [--yes]\n"
                    "       cubby setup --prepare",
        .text =
            "Makes this host ready: makes the template \"default\" if it is missing,\n"
            "checks the host, and lists the clients. Root makes the template for all users,\n"
            "in /var/lib/cubby-templates, unless CUBBY_HOME is set. Any other user makes one for\n"
            "that user alone.\n"
            "CUBBY_TEMPLATE_ARCHIVE names an archive to take the template from, a file or URL.\n"
            "With --client it adds Cubby to the client's configuration. It shows the change\n"
            "first, and keeps everything else in the file as it is. An entry for Cubby keeps its\n"
            "settings.",
        .opts = opts,
        .opt_count = ARRAY_LEN(opts),
    };
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    if (argc > 1)
        return cli_usage_error("setup takes no operand; see cubby setup --help");
    if (o.clients.count && o.service)
        return cli_usage_error("--client and --service do not go together");
    if (o.prepare)
        return prepare(&o);
    return o.clients.count ? setup_client(&o) : setup_machine(&o);
}
