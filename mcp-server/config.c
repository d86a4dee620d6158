// SPDX-License-Identifier: Apache-2.0
// What the user chose: options, environment and a file, read once.
#include "mcp-server/config.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define FILE_BYTES_MAX (1 << 20)

// "a,b" given twice is four names.
static int split_tools(struct config *c, struct err *e)
{
    struct buf words auto_buf = BUF_INIT;
    for (int i = 0; i < c->raw_tools.count; i++)
        buf_printf(&words, "%s,", c->raw_tools.items[i]);
    c->tool_words = buf_take(&words);
    char *rest = c->tool_words;
    for (char *w = strtok_r(rest, ", ", &rest); w; w = strtok_r(NULL, ", ", &rest)) {
        if (c->tools.count == OPT_LIST_MAX)
            return err_set(e, ERR_INVALID, "--tools names more than %d", OPT_LIST_MAX);
        c->tools.items[c->tools.count++] = w;
    }
    return 0;
}

// The file is read before what wins over it, whichever of those names it.
static int load_file(struct config *c, const char *path, struct err *e)
{
    struct opt table[CONFIG_OPTIONS_MAX];
    struct buf text auto_buf = BUF_INIT;
    int in_file = 0;
    if (file_read(path, FILE_BYTES_MAX, &text, e) < 0)
        return err_wrap(e, "--config");
    json_t *values = json_parse(buf_str(&text), text.len, e);
    if (!values)
        return err_wrap(e, "%s", path);
    c->file = values;
    config_table(c, table, &in_file);
    return opts_load(table, in_file, values, path, e);
}

static int parse(struct config *c, int *argc, char **argv, struct err *e)
{
    struct opt table[CONFIG_OPTIONS_MAX];
    int in_file = 0;
    int count = config_table(c, table, &in_file);
    return opts_parse(table, count, argc, argv, false, e);
}

struct client_opts config_client_opts(const struct config *c)
{
    return (struct client_opts){
        .api_url = c->api_url,
        .api_key = c->api_key,
        .sandbox_url = c->sandbox_url,
        .domain = c->domain,
        .dialect = c->dialect,
        .proxy_url = c->backend_proxy,
        .cube_master = c->cube_master,
        .user = c->backend_user,
        .network = c->network,
        .ca_file = config_is_remote(c) ? c->backend_ca : NULL,
    };
}

// A key alone does not choose the cloud: clients that were made for it set one always.
static int choose_backend(struct config *c, struct err *e)
{
    bool is_local = str_eq(c->backend, "local");
    if (c->backend)
        c->api_url = is_local ? NULL : c->backend;
    if (!c->api_url && c->domain && !is_local) {
        c->url_of_domain = str_printf("https://api.%s", c->domain);
        c->api_url = c->url_of_domain;
    }
    const struct client_opts opts = config_client_opts(c);
    return client_opts_check(&opts, e);
}

int config_parse(struct config *c, int *argc, char **argv, struct err *e)
{
    int first_argc = *argc;
    char **first_argv auto_free = xmemdup(argv, ((size_t)*argc + 1) * sizeof *argv);
    config_defaults(c);
    if (parse(c, &first_argc, first_argv, e) < 0)
        return -1;
    const char *path = c->config_file;
    config_defaults(c);
    if (path && load_file(c, path, e) < 0)
        return -1;
    if (parse(c, argc, argv, e) < 0)
        return -1;
    if (*argc > 1 && !c->help && !c->version)
        return err_set(e, ERR_INVALID, "unknown argument %s; see --help", argv[1]);
    if (c->new_token && !c->token_file)
        return err_set(e, ERR_INVALID, "--new-token needs --token-file: where to put it");
    if (choose_backend(c, e) < 0)
        return -1;
    return split_tools(c, e);
}

void config_fini(struct config *c)
{
    json_decref(c->file);
    c->file = NULL;
    free(c->tool_words);
    c->tool_words = NULL;
    free(c->url_of_domain);
    c->url_of_domain = NULL;
}

void config_help(void)
{
    struct config c;
    config_defaults(&c);
    struct opt table[CONFIG_OPTIONS_MAX];
    int in_file = 0;
    int count = config_table(&c, table, &in_file);
    fputs("Usage: cubby-mcp [OPTIONS]\n"
          "Serves Cubby's sandboxes to MCP clients, over stdin and stdout or over HTTP.\n\n",
          stdout);
    opts_help(stdout, table, count);
}

bool config_is_miroflow(const struct config *c)
{
    return str_eq(c->profile, "miroflow");
}

bool config_is_remote(const struct config *c)
{
    return c->api_url != NULL;
}
