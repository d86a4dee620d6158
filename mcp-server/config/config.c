// SPDX-License-Identifier: Apache-2.0
// The configuration: options, environment and a file, read once.
#include "mcp-server/config/config.h"

#include <stdlib.h>
#include <string.h>

#include "mcp-server/config/secure_url.h"
#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/net/listen_address.h"

#define USUAL_MS   50000 // of a command
#define PATIENT_MS 300000

#define FILE_BYTES_MAX (1 << 20)

// --tools takes a list with commas and may be repeated.
static int split_tools(struct config *c, struct err *e)
{
    struct buf words auto_buf = BUF_INIT;
    for (int i = 0; i < c->raw_tools.count; i++)
        buf_printf(&words, "%s,", c->raw_tools.items[i]);
    c->tool_words = buf_take(&words);
    char *rest = c->tool_words;
    for (char *w = strtok_r(rest, ", ", &rest); w; w = strtok_r(NULL, ", ", &rest)) {
        if (c->tools.count == OPT_LIST_MAX)
            return err_set(e, ERR_INVALID, "--tools names more than %d tools", OPT_LIST_MAX);
        c->tools.items[c->tools.count++] = w;
    }
    return 0;
}

// The file is read before the environment and the options, which win over it; either may name it.
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

// An API key alone does not choose E2B's cloud, because E2B's clients always set one.
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

// The default fits every --max-timeout. A value that was given and does not fit is refused, because
// sandboxes would end sooner than the operator expects.
static int choose_timeout(struct config *c, struct err *e)
{
    int64_t given = c->sandbox_timeout_s;
    if (given > c->max_timeout_s)
        return err_set(e, ERR_INVALID,
                       "--sandbox-timeout %lld is above --max-timeout %lld: lower the first or "
                       "raise the second",
                       (long long)given, (long long)c->max_timeout_s);
    bool is_usual = CONFIG_SANDBOX_TIMEOUT_S < c->max_timeout_s;
    if (!given)
        c->sandbox_timeout_s = is_usual ? CONFIG_SANDBOX_TIMEOUT_S : c->max_timeout_s;
    return 0;
}

// The steps of a build reach the internet, so a model could send out by a step what the operator's
// policy keeps in.
static int check_builds(const struct config *c, struct err *e)
{
    if (!c->allow_builds || !c->network || str_eq(c->network, "public"))
        return 0;
    return err_set(e, ERR_INVALID,
                   "--allow-builds does not go with --network %s: the steps of a build reach the "
                   "internet. Leave one of the two out",
                   c->network);
}

// Find the directories that the options name. The local daemon alone has those of this host.
static int find_dirs(struct config *c, struct err *e)
{
    if ((c->mounts.count || c->allow_mounts.count) && config_is_remote(c))
        return err_set(e, ERR_INVALID,
                       "--mount and --allow-mount need the local daemon: another backend has no "
                       "directories of this host. Leave them out, or --backend");
    if (host_dirs_find(&c->found_mounts, &c->mounts, HOST_DIR_MOUNTED, e) < 0)
        return err_wrap(e, "--mount");
    if (host_dirs_find(&c->found_allowed, &c->allow_mounts, HOST_DIR_ALLOWED, e) < 0)
        return err_wrap(e, "--allow-mount");
    return host_dirs_find(&c->found_projects, &c->project_dirs, HOST_DIR_PROJECT, e);
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
    c->sandbox_timeout_s = 0; // not given
    if (path && load_file(c, path, e) < 0)
        return -1;
    if (parse(c, argc, argv, e) < 0)
        return -1;
    if (*argc > 1 && !c->help && !c->version)
        return err_set(e, ERR_INVALID, "unknown argument %s; see --help", argv[1]);
    if (c->new_token && !c->token_file)
        return err_set(e, ERR_INVALID,
                       "--new-token needs --token-file, the file to which the token is added");
    if (choose_backend(c, e) < 0 || choose_timeout(c, e) < 0 || check_builds(c, e) < 0 ||
        find_dirs(c, e) < 0)
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
    host_dirs_fini(&c->found_mounts);
    host_dirs_fini(&c->found_allowed);
    host_dirs_fini(&c->found_projects);
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

int64_t config_command_timeout_ms(const struct config *c, bool takes_progress)
{
    if (c->command_timeout_s > 0)
        return c->command_timeout_s * 1000;
    return takes_progress || config_is_miroflow(c) ? PATIENT_MS : USUAL_MS;
}

bool config_is_remote(const struct config *c)
{
    return c->api_url != NULL;
}

// ---- checks that the HTTP options are safe, before anything is bound

static int check_oauth(const struct config *c, bool is_loopback, struct err *e)
{
    if (!c->oauth_issuer && (c->oauth_jwks || c->oauth_audience || c->oauth_scopes.count))
        return err_set(e, ERR_INVALID,
                       "--oauth-jwks, --oauth-audience and --oauth-scope need --oauth-issuer");
    if (c->oauth_issuer && (!secure_url_check(c->oauth_issuer) || strchr(c->oauth_issuer, '?')))
        return err_set(e, ERR_INVALID,
                       "--oauth-issuer must be the issuer (iss) of the tokens: an https URL "
                       "without a query, or an http URL of this host, not \"%s\"",
                       c->oauth_issuer);
    if (c->oauth_jwks && strstr(c->oauth_jwks, "://") && !secure_url_check(c->oauth_jwks))
        return err_set(
            e, ERR_INVALID,
            "--oauth-jwks must be a file, an https URL, or an http URL of this host, not \"%s\"",
            c->oauth_jwks);
    if (c->oauth_issuer && !c->public_url && !is_loopback)
        return err_set(
            e, ERR_INVALID,
            "--oauth-issuer with --http at an address other than loopback needs --public-url: "
            "clients request tokens for that URL");
    return 0;
}

static int check_network(const struct config *c, struct err *e)
{
    bool is_encrypted = c->tls_cert || (c->public_url && str_starts(c->public_url, "https://"));
    if (!c->token_file && !c->oauth_issuer) {
        if (c->allow_open_network)
            return 0;
        return err_set(e, ERR_INVALID,
                       "--http %s is not a loopback address, so without tokens anybody on the "
                       "network could run commands: give --token-file (see --new-token) or "
                       "--oauth-issuer, or allow it with --allow-unauthenticated-network",
                       c->http);
    }
    if (is_encrypted || c->allow_plain_network)
        return 0;
    return err_set(e, ERR_INVALID,
                   "--http %s is not a loopback address, so tokens would be sent unencrypted: give "
                   "--tls-cert and --tls-key, or --public-url https://... if a proxy terminates "
                   "TLS, or allow it with --allow-plaintext-network",
                   c->http);
}

// Return the length of "https://host:port" or "http://..." at the start of `url`; 0: none.
static size_t origin_length(const char *url)
{
    const char *host = strstr(url, "://");
    if (!host || (!str_starts(url, "https://") && !str_starts(url, "http://")))
        return 0;
    size_t n = strcspn(host + 3, "/?#@ ");
    return n == 0 || host[3 + n] == '@' ? 0 : (size_t)(host + 3 - url) + n;
}

static int check_names(const struct config *c, struct err *e)
{
    size_t n = c->public_url ? origin_length(c->public_url) : 1;
    if (n == 0 || (c->public_url && strpbrk(c->public_url + n, "?# ")))
        return err_set(e, ERR_INVALID,
                       "--public-url must be a URL such as https://cubby.example/mcp, not \"%s\"",
                       c->public_url);
    for (int i = 0; i < c->allow_origins.count; i++) {
        const char *origin = c->allow_origins.items[i];
        n = origin_length(origin);
        if (n == 0 || origin[n])
            return err_set(e, ERR_INVALID,
                           "--allow-origin must be an origin such as https://app.example:8443, not "
                           "\"%s\"",
                           origin);
    }
    return 0;
}

int config_check_http(const struct config *c, struct err *e)
{
    struct sockaddr_storage address;
    if (listen_address_parse(c->http, &address, e) < 0)
        return err_wrap(e, "--http");
    if (c->http_path[0] != '/' || strpbrk(c->http_path, "?# "))
        return err_set(e, ERR_INVALID, "--http-path must be a path such as /mcp, not \"%s\"",
                       c->http_path);
    if (!c->tls_cert != !c->tls_key)
        return err_set(e, ERR_INVALID, "--tls-cert and --tls-key must be given together");
    if (check_names(c, e) < 0)
        return -1;
    bool is_loopback = listen_address_is_loopback(&address);
    if (check_oauth(c, is_loopback, e) < 0)
        return -1;
    return is_loopback ? 0 : check_network(c, e);
}
