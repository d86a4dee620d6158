// SPDX-License-Identifier: Apache-2.0
// What the user chose: options and environment, read once.
#include "mcp-server/config.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define SANDBOX_TIMEOUT_S     1800
#define SANDBOX_TIMEOUT_MAX_S 2592000 // 30 days
#define MAX_DOWNLOAD_BYTES    ((int64_t)1 << 30)
#define OUTPUT_BYTES          ((int64_t)24 << 10)

#define TABLE_MAX 24

static int table_of(struct config *c, struct opt t[TABLE_MAX])
{
    const struct opt table[] = {
        {"profile", "CUBBY_MCP_PROFILE", OPT_STRING, &c->profile, "NAME",
         "texts of results: default, or miroflow (MiroFlow's strings)", 0, 0, "default|miroflow"},
        {"local-dir", NULL, OPT_LIST, &c->local_dirs, "DIR",
         "files below DIR may be uploaded, and downloads written there", 0, 0, NULL},
        {"logs-dir", "LOGS_DIR", OPT_STRING, &c->logs_dir, "DIR",
         "downloads go to DIR/tmpfiles instead of the working directory", 0, 0, NULL},
        {"template", "DEFAULT_TEMPLATE_ID", OPT_STRING, &c->template, "NAME",
         "template of new sandboxes (default: default)", 0, 0, NULL},
        {"sandbox-timeout", "DEFAULT_TIMEOUT", OPT_INT, &c->sandbox_timeout_s, "SECONDS",
         "life of a sandbox after its last call (default 1800)", 1, SANDBOX_TIMEOUT_MAX_S, NULL},
        {"command-timeout", NULL, OPT_INT, &c->command_timeout_s, "SECONDS",
         "limit of a command that names none (default 50; 300 with progress)", 1, 86400, NULL},
        {"output-bytes", NULL, OPT_SIZE, &c->output_bytes, "SIZE",
         "shown of each output stream: its head and tail (default 24K)", 256, 4 << 20, NULL},
        {"max-download-bytes", NULL, OPT_SIZE, &c->max_download_bytes, "SIZE",
         "largest file that is downloaded (default 1G)", 1, INT64_MAX, NULL},
        {"allow-download-from", NULL, OPT_LIST, &c->allow_from, "ADDRESS[/BITS]",
         "let internet downloads reach this private address", 0, 0, NULL},
        {"disable-tool", NULL, OPT_LIST, &c->disabled, "NAME", "do not offer this tool", 0, 0,
         NULL},
        {"api-url", "E2B_API_URL", OPT_STRING, &c->api_url, "URL",
         "use this E2B-compatible service instead of the local daemon", 0, 0, NULL},
        {"api-domain", "E2B_DOMAIN", OPT_STRING, &c->domain, "NAME", "the same by its domain", 0, 0,
         NULL},
        {"api-key", "E2B_API_KEY", OPT_STRING, &c->api_key, "KEY", "its key", 0, 0, NULL},
        {"log-level", "CUBBY_LOG_LEVEL", OPT_STRING, &c->log_level, "LEVEL",
         "error, warn, info or debug; to stderr (default warn)", 0, 0, "error|warn|info|debug"},
        {"help", NULL, OPT_FLAG, &c->help, NULL, "show this", 0, 0, NULL},
        {"version", NULL, OPT_FLAG, &c->version, NULL, "show the version", 0, 0, NULL},
    };
    _Static_assert(ARRAY_LEN(table) <= TABLE_MAX, "TABLE_MAX");
    memcpy(t, table, sizeof table);
    return (int)ARRAY_LEN(table);
}

static void set_defaults(struct config *c)
{
    *c = (struct config){
        .profile = "default",
        .log_level = "warn",
        .sandbox_timeout_s = SANDBOX_TIMEOUT_S,
        .max_download_bytes = MAX_DOWNLOAD_BYTES,
        .output_bytes = OUTPUT_BYTES,
    };
}

int config_parse(struct config *c, int *argc, char **argv, struct err *e)
{
    set_defaults(c);
    struct opt table[TABLE_MAX];
    int count = table_of(c, table);
    if (opts_parse(table, count, argc, argv, false, e) < 0)
        return -1;
    if (*argc > 1 && !c->help && !c->version)
        return err_set(e, ERR_INVALID, "unknown argument %s; see --help", argv[1]);
    // A key alone does not choose the cloud: clients that were made for it set one always.
    if (!c->api_url && c->domain) {
        c->url_of_domain = str_printf("https://api.%s", c->domain);
        c->api_url = c->url_of_domain;
    }
    return 0;
}

void config_fini(struct config *c)
{
    free(c->url_of_domain);
    c->url_of_domain = NULL;
}

void config_help(void)
{
    struct config c;
    set_defaults(&c);
    struct opt table[TABLE_MAX];
    int count = table_of(&c, table);
    fputs("Usage: cubby-mcp [OPTIONS]\n"
          "Serves Cubby's sandboxes to an MCP client over stdin and stdout.\n\n",
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
