// SPDX-License-Identifier: Apache-2.0
// The configuration: options, environment and a file, read once.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "mcp-server/config/host_dirs.h"
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/opts.h"
#include "sandbox-backend/client/client.h"

struct config {
    const char *profile;          // "default" or "miroflow"
    struct opt_list local_dirs;   // beside the working directory and LOGS_DIR/tmpfiles
    struct opt_list project_dirs; // that upload_directory and download_directory may copy
    struct opt_list allow_from;   // private addresses and CIDRs that downloads may reach
    struct opt_list disabled;     // tools that are not offered
    struct opt_list mounts;       // DIR:/path[:ro], which every new sandbox shows
    struct opt_list allow_mounts; // DIR[:ro], of which a model may mount what lies in it
    struct opt_list secrets;      // of cubbyd, whose placeholders all sandboxes get
    const char *logs_dir;         // NULL when not set
    const char *template;         // NULL: the backend's default
    const char *tier;             // of new sandboxes, NULL: as the backend chooses
    const char *backend;          // a URL or "local"; NULL: api_url, or domain, or the local daemon
    const char *api_url;          // after parsing; NULL: the local daemon
    const char *api_key;          // NULL: none
    const char *domain;           // of a remote backend, instead of its URL
    // See client.h for these; NULL when not set.
    const char *dialect, *sandbox_url, *backend_proxy, *backend_user, *backend_ca, *cube_master;
    const char *network; // of new sandboxes: a mode or a file
    const char *log_level;
    int64_t sandbox_timeout_s;       // after the last call; at most max_timeout_s
    int64_t max_timeout_s;           // that a model may ask for; the same for the next two
    int64_t max_cpus, max_memory_mb; // 0: only the backend's own limit
    int64_t command_timeout_s;       // 0: depends on progress, see run.c
    int64_t max_download_bytes;      // of one file, from the internet or from a sandbox
    int64_t output_bytes;            // shown of each stream
    bool allow_builds;               // of templates, by the tool build_template
    bool prepare;                    // make the template in the background; context/prepare.h
    bool links;                      // results of the default profile have resource_link blocks
    const char *structured; // "on" or "off": results have structuredContent beside the text
    const char *images;     // in results: "inline", "path" or "off"; see caller_images
    // Streamable HTTP, instead of stdio.
    const char *http;       // "ADDR:PORT" to listen at; NULL: serve stdio. listen_address.h
    const char *http_path;  // of the endpoint, "/mcp"
    const char *public_url; // the endpoint as clients see it; NULL: as it is bound
    struct opt_list
        allow_hosts; // accepted in the Host header beside loopback, bound and public name
    struct opt_list allow_origins;  // accepted in Origin beside loopback: "https://x.example"
    const char *tls_cert, *tls_key; // PEM files; both or neither
    int64_t max_sessions;           // of the legacy era, open at once
    int64_t session_idle_s;         // idle time after which a session ends
    int64_t max_streams;            // SSE streams open at once
    int64_t max_body_bytes;         // of one request
    // Authorization, see auth.h.
    const char *token_file;                // NULL: no bearer tokens
    const char *new_token;                 // make a token of this name, and exit; or NULL
    const char *oauth_issuer, *oauth_jwks; // NULL: no OAuth; NULL: found from the issuer
    const char *oauth_audience;            // NULL: the public URL
    struct opt_list oauth_scopes;          // all of them are required
    int64_t max_sandboxes;                 // of a caller whose token has no limit; 0: no limit
    int64_t calls_per_minute;              // the same
    bool allow_open_network,
        allow_plain_network; // addresses other than loopback without tokens, without TLS
    struct opt_list tools;   // names and toolsets; empty: all, or MiroFlow's
    const char *config_file; // NULL for none
    bool help, version;
    char *url_of_domain;       // owned, backs api_url
    struct opt_list raw_tools; // as given, with commas
    char *tool_words;          // owned, backs tools
    json_t *file;              // owned, backs values from config_file
    // The directories of project_dirs, mounts and allow_mounts, in the same order.
    struct host_dirs found_projects, found_mounts, found_allowed;
};

#define CONFIG_OPTIONS_MAX       64
#define CONFIG_SANDBOX_TIMEOUT_S 1800
// Fill in the table of options, which write to `c`, and return their number. The first *in_file of
// them may be in a file.
int config_table(struct config *c, struct opt t[CONFIG_OPTIONS_MAX], int *in_file);
void config_defaults(struct config *c);

// Parse options, environment and file. Borrows from argv and the environment. ERR_INVALID names the
// option, or the file and the key.
int config_parse(struct config *c, int *argc, char **argv, struct err *e);
// Check, before anything is bound, that it is safe to serve HTTP as configured. An address other
// than loopback needs tokens or OAuth, and TLS, unless an option explicitly waives them.
// ERR_INVALID says what is missing and what to do.
int config_check_http(const struct config *c, struct err *e);
void config_fini(struct config *c);
void config_help(void); // to stdout
bool config_is_miroflow(const struct config *c);
bool config_is_remote(const struct config *c);
// Return the time limit of a command without its own. Many clients give up a request after 60 s and
// then get no output, so the command is killed after 50 s and its output so far is the answer. A
// client that asks for progress gets some every two seconds and is expected to wait, so it gets
// 300 s. So does the miroflow profile, whose client waits for 900 s. A client that gives up cancels
// the request, which kills the command.
int64_t config_command_timeout_ms(const struct config *c, bool takes_progress);
// Return the options of the client, borrowed; home and daemon_path are NULL.
struct client_opts config_client_opts(const struct config *c);
