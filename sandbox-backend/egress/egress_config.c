// SPDX-License-Identifier: Apache-2.0
// What cubby-egress is told at its start.
#include "sandbox-backend/egress/egress_config.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/egress/egress.h"

#define CHUNK_BYTES 65536

static int read_all(int fd, struct buf *out, struct err *e)
{
    for (;;) {
        ssize_t n = read(fd, buf_room(out, CHUNK_BYTES), CHUNK_BYTES);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(e, errno, "read the configuration");
        if (n == 0)
            return 0;
        buf_took(out, (size_t)n);
        if (out->len > EGRESS_CONFIG_MAX)
            return err_set(e, ERR_TOO_LARGE, "the configuration is too long");
    }
}

static int take(struct egress_config *c, const json_t *json, struct err *e)
{
    const json_t *ca = json_object_get(json, "ca");
    const char *certificate = NULL, *key = NULL, *trust = NULL;
    if (json_get_string(ca, "certificate", &certificate, NULL, e) < 0 ||
        json_get_string(ca, "key", &key, NULL, e) < 0 ||
        json_get_string(json, "trust", &trust, NULL, e) < 0)
        return -1;
    if (!certificate || !key)
        return err_set(e, ERR_INVALID, "ca must have a certificate and a key");
    if (secrets_from_json(&c->secrets, json_object_get(json, "secrets"), e) < 0)
        return -1;
    c->leaves = leaves_new(certificate, key, e);
    c->tls = c->leaves ? tls_ends_new(c->leaves, trust, e) : NULL;
    return c->tls ? 0 : -1;
}

int egress_config_read(struct egress_config *c, int fd, struct err *e)
{
    *c = (struct egress_config){0};
    struct buf text auto_buf = BUF_INIT;
    json_t *json = NULL;
    int rc = read_all(fd, &text, e);
    close(fd);
    if (rc == 0 && !(json = json_parse(buf_str(&text), text.len, NULL)))
        rc = err_set(e, ERR_INVALID, "the configuration is not JSON"); // where would quote it
    if (text.data)
        explicit_bzero(text.data, text.cap);
    if (rc == 0)
        rc = take(c, json, e);
    json_decref(json);
    return rc;
}

void egress_config_fini(struct egress_config *c)
{
    if (c->tls)
        tls_ends_free(c->tls);
    if (c->leaves)
        leaves_free(c->leaves);
    secrets_fini(&c->secrets);
    *c = (struct egress_config){0};
}
