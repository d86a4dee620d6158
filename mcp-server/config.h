// SPDX-License-Identifier: Apache-2.0
// What the user chose: options and environment, read once.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/opts.h"

struct config {
    const char *profile;        // "default" or "miroflow"
    struct opt_list local_dirs; // besides the working directory and LOGS_DIR/tmpfiles
    struct opt_list allow_from; // addresses and CIDRs that downloads may reach though private
    struct opt_list disabled;   // tools that are not offered
    const char *logs_dir;       // NULL when not set
    const char *template;       // NULL: the backend's default
    const char *api_url;        // NULL: the local daemon
    const char *api_key;        // NULL: none
    const char *domain;         // of a remote backend, instead of its URL
    const char *log_level;
    int64_t sandbox_timeout_s;  // slides with each call
    int64_t command_timeout_s;  // 0: by whether the client takes progress, see run.c
    int64_t max_download_bytes; // of one file, from the internet or from a sandbox
    int64_t output_bytes;       // of each stream that is shown
    bool help, version;
    char *url_of_domain; // owned, backs api_url
};

// Borrows from argv and the environment. ERR_INVALID names the option.
int config_parse(struct config *c, int *argc, char **argv, struct err *e);
void config_fini(struct config *c);
void config_help(void); // to stdout
bool config_is_miroflow(const struct config *c);
bool config_is_remote(const struct config *c);
