// SPDX-License-Identifier: Apache-2.0
// What the user chose: options, environment and a file, read once.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/opts.h"
#include "sandbox-backend/client/client.h"

struct config {
    const char *profile;        // "default" or "miroflow"
    struct opt_list local_dirs; // besides the working directory and LOGS_DIR/tmpfiles
    struct opt_list allow_from; // addresses and CIDRs that downloads may reach though private
    struct opt_list disabled;   // tools that are not offered
    struct opt_list secrets;    // of cubbyd, that all sandboxes get
    const char *logs_dir;       // NULL when not set
    const char *template;       // NULL: the backend's default
    const char *backend;        // a URL or "local"; NULL: api_url, or domain, or the local daemon
    const char *api_url;        // once parsed: NULL: the local daemon
    const char *api_key;        // NULL: none
    const char *domain;         // of a remote backend, instead of its URL
    // See client.h for these; NULL when not set.
    const char *dialect, *sandbox_url, *backend_proxy, *backend_user, *backend_ca, *cube_master;
    const char *network; // of the sandboxes it makes: a mode or a file
    const char *log_level;
    int64_t sandbox_timeout_s;  // slides with each call
    int64_t command_timeout_s;  // 0: by whether the client takes progress, see run.c
    int64_t max_download_bytes; // of one file, from the internet or from a sandbox
    int64_t output_bytes;       // of each stream that is shown
    // Streamable HTTP, instead of stdio.
    const char *http;            // "ADDR:PORT" to listen at; NULL: serve stdio. listen_address.h
    const char *http_path;       // of the endpoint, "/mcp"
    const char *public_url;      // the endpoint as clients see it; NULL: as it is bound
    struct opt_list allow_hosts; // taken in the Host header besides loopback, bound and public name
    struct opt_list allow_origins; // taken in Origin besides those of loopback: "https://x.example"
    const char *tls_cert, *tls_key; // PEM files; both or neither
    int64_t max_sessions;           // of the handshake era, open at once
    int64_t session_idle_s;         // a session that is not used for so long ends
    int64_t max_streams;            // SSE streams open at once
    int64_t max_body_bytes;         // of one request
    // Authorization, see auth.h.
    const char *token_file;                       // NULL: no bearer tokens of our own
    const char *new_token;                        // NULL, or: make one of this name, and end
    const char *oauth_issuer, *oauth_jwks;        // NULL: no OAuth; NULL: found from the issuer
    const char *oauth_audience;                   // NULL: the public URL
    struct opt_list oauth_scopes;                 // all of them are required
    int64_t max_sandboxes;                        // of a caller whose token names none; 0: no limit
    int64_t calls_per_minute;                     // the same
    bool allow_open_network, allow_plain_network; // other addresses without tokens, without TLS
    struct opt_list tools;                        // names and toolsets; none: the usual ones
    const char *config_file;                      // NULL for none
    bool help, version;
    char *url_of_domain;       // owned, backs api_url
    struct opt_list raw_tools; // as given, with commas
    char *tool_words;          // owned, backs tools
    json_t *file;              // owned, backs what came from config_file
};

#define CONFIG_OPTIONS_MAX 64
// The options, with `c` as where their values go; the first *in_file of them may stand in a file.
// Returns their number.
int config_table(struct config *c, struct opt t[CONFIG_OPTIONS_MAX], int *in_file);
void config_defaults(struct config *c);

// Borrows from argv and the environment. ERR_INVALID names the option, or the file and the key.
int config_parse(struct config *c, int *argc, char **argv, struct err *e);
// Whether it is safe to serve HTTP as asked: an address other than loopback wants tokens or OAuth,
// and TLS before them, unless the user has said otherwise in so many words. ERR_INVALID says what
// is missing and what to do. Before anything is bound.
int config_check_http(const struct config *c, struct err *e);
void config_fini(struct config *c);
void config_help(void); // to stdout
bool config_is_miroflow(const struct config *c);
bool config_is_remote(const struct config *c);
// What of it the client needs, borrowed from it; home and daemon_path are left NULL.
struct client_opts config_client_opts(const struct config *c);
