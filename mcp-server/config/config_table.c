// SPDX-License-Identifier: Apache-2.0
// The options of cubby-mcp: names, defaults, limits, help. A test compares them
// with schemas/config.schema.json and docs/configuration.md.
#include <assert.h>
#include <string.h>

#include "mcp-server/config/config.h"
#include "sandbox-backend/base/mem.h"

#define SANDBOX_TIMEOUT_MAX_S 2592000 // 30 days
#define MAX_TIMEOUT_S         86400
#define MAX_DOWNLOAD_BYTES    ((int64_t)1 << 30)
#define OUTPUT_BYTES          ((int64_t)24 << 10)

#define HTTP_PATH      "/mcp"
#define MAX_SESSIONS   2000
#define SESSION_IDLE_S 1800
#define MAX_STREAMS    2000
#define MAX_BODY_BYTES ((int64_t)16 << 20)

static void append(struct opt *t, int *n, const struct opt *part, size_t count)
{
    assert(*n + (int)count <= CONFIG_OPTIONS_MAX);
    memcpy(t + *n, part, count * sizeof *part);
    *n += (int)count;
}

static void sandbox_options(struct config *c, struct opt *t, int *n)
{
    const struct opt part[] = {
        {"profile", "CUBBY_MCP_PROFILE", OPT_STRING, &c->profile, "NAME",
         "wording of results: default, or miroflow (that of MiroFlow)", 0, 0, "default|miroflow"},
        {"local-dir", NULL, OPT_LIST, &c->local_dirs, "DIR",
         "allow uploads from DIR and downloads into it", 0, 0, NULL},
        {"project-dir", NULL, OPT_LIST, &c->project_dirs, "DIR",
         "offer upload_directory and download_directory, which copy all of DIR", 0, 0, NULL},
        {"logs-dir", "LOGS_DIR", OPT_STRING, &c->logs_dir, "DIR",
         "write downloads to DIR/tmpfiles, not to the working directory", 0, 0, NULL},
        {"template", "DEFAULT_TEMPLATE_ID", OPT_STRING, &c->template, "NAME",
         "template of new sandboxes (default: default)", 0, 0, NULL},
        {"tier", "CUBBY_SANDBOX_TIER", OPT_STRING, &c->tier, "TIER",
         "tier of new sandboxes: microvm, gvisor, bubblewrap, none, or auto for the best (default: "
         "cubbyd --tier)",
         0, 0, "microvm|gvisor|bubblewrap|none|auto"},
        {"sandbox-timeout", "DEFAULT_TIMEOUT", OPT_INT, &c->sandbox_timeout_s, "SECONDS",
         "time to live of a sandbox after its last use (default 1800, or --max-timeout if less)", 1,
         SANDBOX_TIMEOUT_MAX_S, NULL},
        {"max-timeout", NULL, OPT_INT, &c->max_timeout_s, "SECONDS",
         "longest time to live that a model may give a sandbox (default 86400)", 1,
         SANDBOX_TIMEOUT_MAX_S, NULL},
        {"max-cpus", NULL, OPT_INT, &c->max_cpus, "N",
         "maximum number of processors that a model may give a sandbox (default 0: no limit)", 0,
         1024, NULL},
        {"max-memory-mb", NULL, OPT_INT, &c->max_memory_mb, "MB",
         "maximum memory that a model may give a sandbox (default 0: no limit)", 0, 1 << 24, NULL},
        {"command-timeout", NULL, OPT_INT, &c->command_timeout_s, "SECONDS",
         "time limit of a command that names none (default 50; 300 for clients with progress)", 1,
         86400, NULL},
        {"output-bytes", NULL, OPT_SIZE, &c->output_bytes, "SIZE",
         "bytes of each output stream to show, head and tail (default 24K)", 256, 4 << 20, NULL},
        {"max-download-bytes", NULL, OPT_SIZE, &c->max_download_bytes, "SIZE",
         "maximum size of a downloaded file (default 1G)", 1, INT64_MAX, NULL},
        {"allow-download-from", NULL, OPT_LIST, &c->allow_from, "ADDRESS[/BITS]",
         "allow internet downloads from this private address", 0, 0, NULL},
        {"links", "CUBBY_MCP_LINKS", OPT_FLAG, &c->links, NULL,
         "add a resource_link block to results that name a file of the sandbox", 0, 0, NULL},
        {"structured", "CUBBY_MCP_STRUCTURED", OPT_STRING, &c->structured, "on|off",
         "structuredContent beside the text of results: on (default) or off", 0, 0, "on|off"},
        {"images", "CUBBY_MCP_IMAGES", OPT_STRING, &c->images, "inline|path|off",
         "images in results: inline (default), only their path, or off", 0, 0, "inline|path|off"},
        {"allow-builds", "CUBBY_MCP_ALLOW_BUILDS", OPT_FLAG, &c->allow_builds, NULL,
         "offer build_template, with which a model builds templates", 0, 0, NULL},
        {"prepare", "CUBBY_MCP_PREPARE", OPT_FLAG, &c->prepare, NULL,
         "make the template in the background if this user has none", 0, 0, NULL},
        {"disable-tool", NULL, OPT_LIST, &c->disabled, "NAME", "do not offer this tool", 0, 0,
         NULL},
        {"mount", NULL, OPT_LIST, &c->mounts, "DIR:/PATH[:ro]",
         "show this directory in each new sandbox, live; with :ro for reading only", 0, 0, NULL},
        {"allow-mount", NULL, OPT_LIST, &c->allow_mounts, "DIR[:ro]",
         "let a model mount this directory, and those in it, in new sandboxes", 0, 0, NULL},
        {"secret", NULL, OPT_LIST, &c->secrets, "NAME",
         "let new sandboxes use this secret of cubbyd", 0, 0, NULL},
    };
    append(t, n, part, ARRAY_LEN(part));
}

static void backend_options(struct config *c, struct opt *t, int *n)
{
    const struct opt part[] = {
        {"backend", "CUBBY_BACKEND", OPT_STRING, &c->backend, "URL",
         "server that runs the sandboxes: cubbyd, E2B or CubeSandbox (default: local)", 0, 0, NULL},
        {"dialect", "CUBBY_DIALECT", OPT_STRING, &c->dialect, "NAME",
         "kind of backend: cubbyd, e2b or cube (default: detected)", 0, 0, "cubbyd|e2b|cube"},
        {"api-url", "E2B_API_URL", OPT_STRING, &c->api_url, "URL",
         "use this E2B-compatible service instead of the local daemon", 0, 0, NULL},
        {"api-domain", "E2B_DOMAIN", OPT_STRING, &c->domain, "NAME",
         "use the E2B-compatible service at this domain", 0, 0, NULL},
        {"api-key", "E2B_API_KEY", OPT_STRING, &c->api_key, "KEY", "API key of the backend", 0, 0,
         NULL},
        {"sandbox-url", "E2B_SANDBOX_URL", OPT_STRING, &c->sandbox_url, "URL",
         "one URL through which all sandboxes of the backend are reached", 0, 0, NULL},
        {"backend-proxy", "CUBBY_BACKEND_PROXY", OPT_STRING, &c->backend_proxy, "URL",
         "URL of the server to use for all host names of sandboxes, instead of DNS", 0, 0, NULL},
        {"backend-user", "CUBBY_BACKEND_USER", OPT_STRING, &c->backend_user, "NAME",
         "user that runs commands in sandboxes (default: the backend's default)", 0, 0, NULL},
        {"backend-ca", "SSL_CERT_FILE", OPT_STRING, &c->backend_ca, "FILE",
         "also trust these certificate authorities for the backend, PEM", 0, 0, NULL},
        {"network", "CUBBY_NETWORK", OPT_STRING, &c->network, "POLICY",
         "network policy of new sandboxes: none, public (default), or a JSON file", 0, 0, NULL},
        {"cube-master", "CUBBY_CUBE_MASTER", OPT_STRING, &c->cube_master, "URL",
         "URL of CubeMaster, which gives the IP addresses of CubeSandbox's sandboxes", 0, 0, NULL},
    };
    append(t, n, part, ARRAY_LEN(part));
}

static void http_options(struct config *c, struct opt *t, int *n)
{
    const struct opt part[] = {
        {"tools", "CUBBY_MCP_TOOLS", OPT_LIST, &c->raw_tools, "LIST",
         "offer these tools and toolsets, comma separated", 0, 0, NULL},
        {"http", "CUBBY_MCP_HTTP", OPT_STRING, &c->http, "ADDR:PORT",
         "serve MCP over HTTP at this address instead of stdio; port 0: a free port", 0, 0, NULL},
        {"http-path", NULL, OPT_STRING, &c->http_path, "PATH",
         "path of the endpoint (default /mcp)", 0, 0, NULL},
        {"public-url", "CUBBY_MCP_PUBLIC_URL", OPT_STRING, &c->public_url, "URL",
         "URL of the endpoint as clients see it, behind a proxy", 0, 0, NULL},
        {"allow-host", NULL, OPT_LIST, &c->allow_hosts, "NAME",
         "also accept this name in the Host header", 0, 0, NULL},
        {"allow-origin", NULL, OPT_LIST, &c->allow_origins, "ORIGIN",
         "allow web pages of this origin to use the server", 0, 0, NULL},
        {"tls-cert", NULL, OPT_STRING, &c->tls_cert, "FILE",
         "serve https with these certificates, PEM", 0, 0, NULL},
        {"tls-key", NULL, OPT_STRING, &c->tls_key, "FILE", "private key of --tls-cert, PEM", 0, 0,
         NULL},
    };
    append(t, n, part, ARRAY_LEN(part));
}

static void caller_options(struct config *c, struct opt *t, int *n)
{
    const struct opt part[] = {
        {"token-file", "CUBBY_MCP_TOKEN_FILE", OPT_STRING, &c->token_file, "FILE",
         "require a bearer token listed in this file", 0, 0, NULL},
        {"oauth-issuer", NULL, OPT_STRING, &c->oauth_issuer, "URL",
         "accept OAuth access tokens (JWT) of this authorization server", 0, 0, NULL},
        {"oauth-jwks", NULL, OPT_STRING, &c->oauth_jwks, "URL|FILE",
         "signing keys of the issuer (default: found through its metadata)", 0, 0, NULL},
        {"oauth-audience", NULL, OPT_STRING, &c->oauth_audience, "NAME",
         "audience that tokens must have (default: the public URL)", 0, 0, NULL},
        {"oauth-scope", NULL, OPT_LIST, &c->oauth_scopes, "NAME", "scope that tokens must have", 0,
         0, NULL},
        {"max-sandboxes", NULL, OPT_INT, &c->max_sandboxes, "N",
         "maximum number of sandboxes for a token without its own limit (default 0: no limit)", 0,
         1000000, NULL},
        {"calls-per-minute", NULL, OPT_INT, &c->calls_per_minute, "N",
         "maximum number of calls per minute for a token without its own limit (default 0: no "
         "limit)",
         0, 10000000, NULL},
        {"allow-unauthenticated-network", NULL, OPT_FLAG, &c->allow_open_network, NULL,
         "allow anybody who reaches this address to run commands", 0, 0, NULL},
        {"allow-plaintext-network", NULL, OPT_FLAG, &c->allow_plain_network, NULL,
         "allow tokens without encryption", 0, 0, NULL},
    };
    append(t, n, part, ARRAY_LEN(part));
}

static void limit_options(struct config *c, struct opt *t, int *n)
{
    const struct opt part[] = {
        {"max-sessions", NULL, OPT_INT, &c->max_sessions, "N",
         "maximum number of open HTTP sessions (default 2000)", 1, 1000000, NULL},
        {"session-idle", NULL, OPT_INT, &c->session_idle_s, "SECONDS",
         "seconds until an idle HTTP session ends (default 1800)", 1, 2592000, NULL},
        {"max-streams", NULL, OPT_INT, &c->max_streams, "N",
         "maximum number of open event streams (default 2000)", 1, 1000000, NULL},
        {"max-body-bytes", NULL, OPT_SIZE, &c->max_body_bytes, "SIZE",
         "maximum size of an HTTP request (default 16M)", 1024, 1 << 30, NULL},
        {"log-level", "CUBBY_LOG_LEVEL", OPT_STRING, &c->log_level, "LEVEL",
         "error, warn, info or debug, to stderr (default warn)", 0, 0, "error|warn|info|debug"},
    };
    append(t, n, part, ARRAY_LEN(part));
}

static void command_line_options(struct config *c, struct opt *t, int *n)
{
    const struct opt part[] = {
        {"new-token", NULL, OPT_STRING, &c->new_token, "NAME",
         "make a token, add it to --token-file and print it", 0, 0, NULL},
        {"config", "CUBBY_MCP_CONFIG", OPT_STRING, &c->config_file, "FILE",
         "JSON file with these options, _ for -; flags and environment win", 0, 0, NULL},
        {"help", NULL, OPT_FLAG, &c->help, NULL, "show this help", 0, 0, NULL},
        {"version", NULL, OPT_FLAG, &c->version, NULL, "show the version", 0, 0, NULL},
    };
    append(t, n, part, ARRAY_LEN(part));
}

// In the order of --help and of the documents.
int config_table(struct config *c, struct opt t[CONFIG_OPTIONS_MAX], int *in_file)
{
    int n = 0;
    sandbox_options(c, t, &n);
    backend_options(c, t, &n);
    http_options(c, t, &n);
    caller_options(c, t, &n);
    limit_options(c, t, &n);
    *in_file = n;
    command_line_options(c, t, &n);
    return n;
}

void config_defaults(struct config *c)
{
    *c = (struct config){
        .profile = "default",
        .log_level = "warn",
        .structured = "on",
        .images = "inline",
        .sandbox_timeout_s = CONFIG_SANDBOX_TIMEOUT_S,
        .max_timeout_s = MAX_TIMEOUT_S,
        .max_download_bytes = MAX_DOWNLOAD_BYTES,
        .output_bytes = OUTPUT_BYTES,
        .http_path = HTTP_PATH,
        .max_sessions = MAX_SESSIONS,
        .session_idle_s = SESSION_IDLE_S,
        .max_streams = MAX_STREAMS,
        .max_body_bytes = MAX_BODY_BYTES,
    };
}
