// SPDX-License-Identifier: Apache-2.0
// The secrets of one sandbox, as cubby-egress holds them.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"

#define SECRETS_MAX            32
#define SECRET_HOSTS_MAX       64
#define SECRET_VALUE_MAX       65536
#define SECRET_VALUE_MIN       8 // a shorter value would be found everywhere
#define SECRET_PLACEHOLDER_MIN 16

struct secret {
    char *name;
    char *placeholder;
    char *value;   // one line
    char *percent; // the value encoded for a query; NULL: it needs no encoding
    char **hosts;
    size_t host_count;
};

struct secrets {
    struct secret *items; // owned, with everything in it
    size_t count;
};

// ERR_INVALID names the secret, never its value. Call secrets_fini in any case.
int secrets_from_json(struct secrets *s, const json_t *list, struct err *e);
void secrets_fini(struct secrets *s); // wipes the values

bool secret_is_for(const struct secret *secret, const char *host);
bool secrets_have_any_for(const struct secrets *s, const char *host);
// Append the hosts, such as "api.example.com, *.example.org", cut if the list is long.
void secret_show_hosts(const struct secret *secret, struct buf *out);
// Find the first placeholder in the text and return its secret, or NULL; *at is where it begins.
const struct secret *secrets_find(const struct secrets *s, const char *text, size_t len,
                                  size_t *at);
