// SPDX-License-Identifier: Apache-2.0
#include "sandbox-backend/web/downloads.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define SECRET_BYTES 32
#define LIFE_MS      60000

void download_fini(struct download *d)
{
    free(d->secret);
    free(d->target);
    free(d->token);
    free(d->file);
    *d = (struct download){0};
}

void downloads_fini(struct downloads *d)
{
    for (size_t i = 0; i < DOWNLOADS_MAX; i++)
        download_fini(&d->links[i]);
}

static char *encoded(const char *name)
{
    struct buf out = BUF_INIT;
    percent_encode(&out, *name ? name : "file", false);
    return buf_take(&out);
}

char *downloads_add(struct downloads *d, const char *body, size_t len, struct err *e)
{
    struct backend_target parsed;
    json_t *want = json_parse(body, len, e);
    const char *target = json_string_value(json_object_get(want, "target"));
    const char *token = json_string_value(json_object_get(want, "token"));
    const char *name = json_string_value(json_object_get(want, "name"));
    if (!target || !name || !backend_target_parse(target, &parsed) ||
        (token && strpbrk(token, "\r\n"))) {
        json_decref(want);
        err_set(e, ERR_INVALID, "a download needs a target and a name");
        return NULL;
    }
    struct download *link = &d->links[d->next++ % DOWNLOADS_MAX];
    download_fini(link);
    *link = (struct download){.secret = random_hex(SECRET_BYTES),
                              .target = xstrdup(target),
                              .token = token ? xstrdup(token) : NULL,
                              .file = encoded(name),
                              .until_ms = clock_mono_ms() + LIFE_MS};
    json_decref(want);
    return str_printf(DOWNLOADS_PATH "%s", link->secret);
}

bool downloads_take(struct downloads *d, const char *secret, struct download *out)
{
    for (size_t i = 0; i < DOWNLOADS_MAX; i++) {
        struct download *link = &d->links[i];
        if (!str_eq_secret(link->secret, secret) || link->until_ms < clock_mono_ms())
            continue;
        *out = *link;
        *link = (struct download){0};
        return true;
    }
    return false;
}
