// SPDX-License-Identifier: Apache-2.0
// GET, HEAD and POST /files: whole files in and out, streamed; POST /files/compose: several into
// one. Who may (the access token, or a signature of the URL) and as which user is decided here.
#pragma once
#include "sandbox-backend/envd/envd.h"

// The request is theirs from here on. `basic` is the name of Authorization: Basic, NULL without.
void files_serve(struct envd *envd, struct http_request *req, const char *basic);
void files_serve_compose(struct envd *envd, struct http_request *req, const char *basic);

// The user that is named: by `name` (may be NULL or empty), else by `basic`, else the default one.
// -1: the request was answered with 401.
int files_user(const struct envd *envd, struct http_request *req, const char *name,
               const char *basic, struct user *out);
// The query's path as an absolute one; new string. NULL: the request was answered with 400.
char *files_path(const struct envd *envd, struct http_request *req, const struct user *user,
                 const char *path);

void files_get(struct envd *envd, struct http_request *req, const struct user *user);
void files_post(struct envd *envd, struct http_request *req, const struct user *user);
