// SPDX-License-Identifier: Apache-2.0
// The options of cubby-mcp: names, defaults, limits, help. schemas/config.schema.json and
// docs/configuration.md say the same, which is tested.
#include <assert.h>
#include <string.h>

#include "mcp-server/config.h"
#include "sandbox-backend/base/mem.h"

#define SANDBOX_TIMEOUT_S     1800
#define SANDBOX_TIMEOUT_MAX_S 2592000 // 30 days
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
        {"secret", NULL, OPT_LIST, &c->secrets, "NAME",
         "secret of cubbyd whose placeholder new sandboxes get; may be repeated", 0, 0, NULL},
    };
    append(t, n, part, ARRAY_LEN(part));
}

static void backend_options(struct config *c, struct opt *t, int *n)
{
    const struct opt part[] = {
        {"backend", "CUBBY_BACKEND", OPT_STRING, &c->backend, "URL",
         "the sandboxes' server: cubbyd, E2B or CubeSandbox; or local, the default", 0, 0, NULL},
        {"dialect", "CUBBY_DIALECT", OPT_STRING, &c->dialect, "NAME",
         "which of them: cubbyd, e2b or cube (default: found by asking)", 0, 0, "cubbyd|e2b|cube"},
        {"api-url", "E2B_API_URL", OPT_STRING, &c->api_url, "URL",
         "use this E2B-compatible service instead of the local daemon", 0, 0, NULL},
        {"api-domain", "E2B_DOMAIN", OPT_STRING, &c->domain, "NAME",
         "the same by its domain, which its sandboxes' names end with", 0, 0, NULL},
        {"api-key", "E2B_API_KEY", OPT_STRING, &c->api_key, "KEY", "its key", 0, 0, NULL},
        {"sandbox-url", "E2B_SANDBOX_URL", OPT_STRING, &c->sandbox_url, "URL",
         "of all its sandboxes, when they share one", 0, 0, NULL},
        {"backend-proxy", "CUBBY_BACKEND_PROXY", OPT_STRING, &c->backend_proxy, "URL",
         "where its sandboxes' names lead, whatever DNS says", 0, 0, NULL},
        {"backend-user", "CUBBY_BACKEND_USER", OPT_STRING, &c->backend_user, "NAME",
         "who acts in its sandboxes (default: as the server has it)", 0, 0, NULL},
        {"backend-ca", "SSL_CERT_FILE", OPT_STRING, &c->backend_ca, "FILE",
         "trust these authorities for it too, PEM", 0, 0, NULL},
        {"network", "CUBBY_NETWORK", OPT_STRING, &c->network, "WHAT",
         "what its sandboxes may open: none, public (default), or a file with the policy as JSON",
         0, 0, NULL},
        {"cube-master", "CUBBY_CUBE_MASTER", OPT_STRING, &c->cube_master, "URL",
         "CubeMaster, to reach a CubeSandbox's sandboxes by address", 0, 0, NULL},
    };
    append(t, n, part, ARRAY_LEN(part));
}

static void http_options(struct config *c, struct opt *t, int *n)
{
    const struct opt part[] = {
        {"tools", "CUBBY_MCP_TOOLS", OPT_LIST, &c->raw_tools, "LIST",
         "offer these tools and toolsets, comma separated", 0, 0, NULL},
        {"http", "CUBBY_MCP_HTTP", OPT_STRING, &c->http, "ADDR:PORT",
         "serve streamable HTTP here instead of stdio; port 0: any", 0, 0, NULL},
        {"http-path", NULL, OPT_STRING, &c->http_path, "PATH", "of the endpoint (default /mcp)", 0,
         0, NULL},
        {"public-url", "CUBBY_MCP_PUBLIC_URL", OPT_STRING, &c->public_url, "URL",
         "the endpoint as clients see it, behind a proxy", 0, 0, NULL},
        {"allow-host", NULL, OPT_LIST, &c->allow_hosts, "NAME",
         "take this name in the Host header too", 0, 0, NULL},
        {"allow-origin", NULL, OPT_LIST, &c->allow_origins, "ORIGIN",
         "let web pages of this origin use the server", 0, 0, NULL},
        {"tls-cert", NULL, OPT_STRING, &c->tls_cert, "FILE", "serve https: certificates, PEM", 0, 0,
         NULL},
        {"tls-key", NULL, OPT_STRING, &c->tls_key, "FILE", "and their key, PEM", 0, 0, NULL},
    };
    append(t, n, part, ARRAY_LEN(part));
}

static void caller_options(struct config *c, struct opt *t, int *n)
{
    const struct opt part[] = {
        {"token-file", "CUBBY_MCP_TOKEN_FILE", OPT_STRING, &c->token_file, "FILE",
         "take the bearer tokens of this file, and ask for one", 0, 0, NULL},
        {"oauth-issuer", NULL, OPT_STRING, &c->oauth_issuer, "URL",
         "take OAuth access tokens (JWT) of this authorization server", 0, 0, NULL},
        {"oauth-jwks", NULL, OPT_STRING, &c->oauth_jwks, "URL|FILE",
         "its keys (default: found from its metadata)", 0, 0, NULL},
        {"oauth-audience", NULL, OPT_STRING, &c->oauth_audience, "NAME",
         "whom tokens must be for (default: the public URL)", 0, 0, NULL},
        {"oauth-scope", NULL, OPT_LIST, &c->oauth_scopes, "NAME", "tokens must have this scope", 0,
         0, NULL},
        {"max-sandboxes", NULL, OPT_INT, &c->max_sandboxes, "N",
         "alive at once, of a token that names no limit (default 0: any)", 0, 1000000, NULL},
        {"calls-per-minute", NULL, OPT_INT, &c->calls_per_minute, "N",
         "of a token that names no limit (default 0: any)", 0, 10000000, NULL},
        {"allow-unauthenticated-network", NULL, OPT_FLAG, &c->allow_open_network, NULL,
         "let anybody who reaches this address run commands", 0, 0, NULL},
        {"allow-plaintext-network", NULL, OPT_FLAG, &c->allow_plain_network, NULL,
         "let tokens travel unencrypted", 0, 0, NULL},
    };
    append(t, n, part, ARRAY_LEN(part));
}

static void limit_options(struct config *c, struct opt *t, int *n)
{
    const struct opt part[] = {
        {"max-sessions", NULL, OPT_INT, &c->max_sessions, "N",
         "HTTP sessions open at once (default 2000)", 1, 1000000, NULL},
        {"session-idle", NULL, OPT_INT, &c->session_idle_s, "SECONDS",
         "life of an HTTP session after its last request (default 1800)", 1, 2592000, NULL},
        {"max-streams", NULL, OPT_INT, &c->max_streams, "N",
         "event streams open at once (default 2000)", 1, 1000000, NULL},
        {"max-body-bytes", NULL, OPT_SIZE, &c->max_body_bytes, "SIZE",
         "of one HTTP request (default 16M)", 1024, 1 << 30, NULL},
        {"log-level", "CUBBY_LOG_LEVEL", OPT_STRING, &c->log_level, "LEVEL",
         "error, warn, info or debug; to stderr (default warn)", 0, 0, "error|warn|info|debug"},
    };
    append(t, n, part, ARRAY_LEN(part));
}

static void command_line_options(struct config *c, struct opt *t, int *n)
{
    const struct opt part[] = {
        {"new-token", NULL, OPT_STRING, &c->new_token, "NAME",
         "make a token, add it to --token-file, print it", 0, 0, NULL},
        {"config", "CUBBY_MCP_CONFIG", OPT_STRING, &c->config_file, "FILE",
         "JSON with these options, _ for -; flags and environment win", 0, 0, NULL},
        {"help", NULL, OPT_FLAG, &c->help, NULL, "show this", 0, 0, NULL},
        {"version", NULL, OPT_FLAG, &c->version, NULL, "show the version", 0, 0, NULL},
    };
    append(t, n, part, ARRAY_LEN(part));
}

// In the order of --help, and of the documents.
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
        .sandbox_timeout_s = SANDBOX_TIMEOUT_S,
        .max_download_bytes = MAX_DOWNLOAD_BYTES,
        .output_bytes = OUTPUT_BYTES,
        .http_path = HTTP_PATH,
        .max_sessions = MAX_SESSIONS,
        .session_idle_s = SESSION_IDLE_S,
        .max_streams = MAX_STREAMS,
        .max_body_bytes = MAX_BODY_BYTES,
    };
}
