// SPDX-License-Identifier: Apache-2.0
// The plan of a build (docs/templates.md), from the body of E2B's request to start it
// (TemplateBuildStartV2). Pure.
//
// E2B's SDKs expect that commands run as "user" in /home/user, whatever the image says. So a plan
// of an image begins with these two. A plan of a template keeps what the template names, and has
// these two otherwise.
#pragma once
#include <jansson.h>

#include "sandbox-backend/base/err.h"

#define PLAN_STEPS_MAX 500
#define PLAN_BODY_MAX  ((size_t)2 << 20)

// What the body asks for, beside the plan.
struct plan_parts {
    json_t *plan;     // owned; with "line" = number of E2B's step, from 1
    json_t *authfile; // owned; NULL: the image needs none
    char *registry;   // owned; of the image; NULL: the base is a template
    char *template;   // owned; the base's name as asked for; NULL: the base is an image
    int steps;        // of E2B's
};

// Read the body. Each COPY step of the plan has the member "files", the hash of its upload, in
// place of "archive" and "hash"; the caller replaces it (plan_each_upload). The base's template is
// in `template` alone: the caller resolves it and calls plan_set_template. ERR_INVALID names what
// is wrong. End `out` with plan_parts_fini, also after a failure.
int plan_read(const json_t *body, struct plan_parts *out, struct err *e);
void plan_parts_fini(struct plan_parts *p);

// environment: of the template (templates_environment), or NULL.
void plan_set_template(struct plan_parts *p, const char *template, const json_t *environment);
// Call `each` for each COPY step of a plan with its upload's hash; it sets "archive" and "hash".
// Stop at -1, and return it.
int plan_each_upload(json_t *plan,
                     int (*each)(json_t *step, const char *files, void *ctx, struct err *e),
                     void *ctx, struct err *e);
