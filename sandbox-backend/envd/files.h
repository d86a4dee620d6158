// SPDX-License-Identifier: Apache-2.0
// GET and POST /files: whole files in and out, streamed.
#pragma once
#include "sandbox-backend/envd/envd.h"

// The request is theirs from here on. HEAD is answered by files_get.
void files_get(struct envd *envd, struct http_request *req, const struct user *user);
void files_post(struct envd *envd, struct http_request *req, const struct user *user);

// The query's path as an absolute one; new string. NULL: the request was answered with 400.
char *files_path(const struct envd *envd, struct http_request *req, const struct user *user,
                 const char *path);
