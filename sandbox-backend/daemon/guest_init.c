// SPDX-License-Identifier: Apache-2.0
// POST /init: what makes a guest the sandbox that it is.
#include "sandbox-backend/daemon/guest_init.h"

#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/sandbox.h"

#define ENTROPY_BYTES 64

// The variables that say where a program runs win over the user's.
static json_t *variables(const struct sandbox *sb, json_t *env)
{
    json_t *all = env ? json_copy(env) : json_object();
    json_object_set_new(all, "E2B_SANDBOX", json_string("true"));
    json_object_set_new(all, "E2B_SANDBOX_ID", json_string(sb->id));
    json_object_set_new(all, "E2B_TEMPLATE_ID",
                        json_string(sb->snapshot ? sb->snapshot : sb->template));
    return all;
}

static char *body_of(const struct sandbox *sb, json_t *env, bool inherit)
{
    unsigned char entropy[ENTROPY_BYTES];
    struct buf coded auto_buf = BUF_INIT;
    char now[CLOCK_RFC3339_BYTES];
    random_bytes(entropy, sizeof entropy);
    base64_encode(&coded, entropy, sizeof entropy);
    clock_rfc3339(now, clock_wall_ns());
    json_t *body = json_pack("{s:o, s:s, s:s, s:s, s:s, s:s*}", "envVars", variables(sb, env),
                             "timestamp", now, "hostname", sb->id, "entropy", buf_str(&coded),
                             "defaultUser", "user", "accessToken", sb->token);
    if (inherit)
        json_object_set_new(body, "inheritEnvVars", json_true());
    if (sb->size.disk_mb) // one that is that large already stays as it is
        json_object_set_new(body, "diskSizeMB", json_integer(sb->size.disk_mb));
    char *text = json_to_string(body);
    json_decref(body);
    return text;
}

struct guest_call *guest_init_start(struct sandbox *sb, json_t *env, guest_call_cb cb, void *ctx)
{
    char *body auto_free = body_of(sb, env, false);
    return guest_call_start(sb, "POST", "/init", body, GUEST_INIT_MS, cb, ctx);
}

struct guest_call *guest_init_start_image(struct sandbox *sb, const char *old_token, json_t *env,
                                          guest_call_cb cb, void *ctx)
{
    char *body auto_free = body_of(sb, env, true);
    return guest_call_start_as(sb, old_token, "POST", "/init", body, GUEST_INIT_MS, cb, ctx);
}

int guest_init_check(int status, const char *text, const struct err *e, struct err *out)
{
    if (e) {
        *out = *e;
        return err_wrap(out, "initialise envd");
    }
    if (status == 204)
        return 0;
    return err_set(out, ERR_INTERNAL, "envd answered /init with %d: %.200s", status, text);
}
