// SPDX-License-Identifier: Apache-2.0
// The secrets of one sandbox, as cubby-egress holds them.
#include "sandbox-backend/egress/secret.h"

#include <string.h>

#include "sandbox-backend/base/host_pattern.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define HOSTS_SHOWN_BYTES 120

static int take_text(const json_t *object, const char *key, size_t min, size_t max, char **out,
                     struct err *e)
{
    const json_t *text = json_object_get(object, key);
    size_t len = json_string_length(text);
    if (!json_is_string(text) || len < min || len > max)
        return err_set(e, ERR_INVALID, "its %s must be text of %zu to %zu bytes", key, min, max);
    const char *bytes = json_string_value(text);
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)bytes[i] < ' ' || bytes[i] == 0x7F)
            return err_set(e, ERR_INVALID, "its %s must be one line without control characters",
                           key);
    *out = xstrndup(bytes, len);
    return 0;
}

static int take_hosts(struct secret *secret, const json_t *hosts, struct err *e)
{
    size_t i;
    const json_t *host;
    if (json_array_size(hosts) == 0 || json_array_size(hosts) > SECRET_HOSTS_MAX)
        return err_set(e, ERR_INVALID, "its hosts must be a list of 1 to %d names",
                       SECRET_HOSTS_MAX);
    secret->hosts = xcalloc(json_array_size(hosts), sizeof *secret->hosts);
    json_array_foreach (hosts, i, host) {
        if (!json_is_string(host))
            return err_set(e, ERR_INVALID, "each of its hosts must be text");
        if (host_pattern_check(json_string_value(host), e) < 0)
            return -1;
        secret->hosts[secret->host_count++] = xstrdup(json_string_value(host));
    }
    return 0;
}

static void encode(struct secret *secret)
{
    struct buf out = BUF_INIT;
    buf_room(&out, 3 * strlen(secret->value) + 1); // reserve now: a move would leave a copy behind
    percent_encode(&out, secret->value, false);
    secret->percent = buf_take(&out);
    if (!str_eq(secret->percent, secret->value))
        return;
    explicit_bzero(secret->percent, strlen(secret->percent));
    free(steal(&secret->percent));
}

static int take_secret(struct secret *secret, const json_t *object, struct err *e)
{
    if (take_text(object, "name", 1, 128, &secret->name, e) < 0)
        return err_wrap(e, "a secret");
    if (take_text(object, "placeholder", SECRET_PLACEHOLDER_MIN, 256, &secret->placeholder, e) <
            0 ||
        take_text(object, "value", SECRET_VALUE_MIN, SECRET_VALUE_MAX, &secret->value, e) < 0 ||
        take_hosts(secret, json_object_get(object, "hosts"), e) < 0)
        return err_wrap(e, "secret %s", secret->name);
    encode(secret);
    return 0;
}

int secrets_from_json(struct secrets *s, const json_t *list, struct err *e)
{
    size_t i;
    const json_t *object;
    *s = (struct secrets){0};
    if (!json_is_array(list) || json_array_size(list) > SECRETS_MAX)
        return err_set(e, ERR_INVALID, "secrets must be a list of at most %d secrets", SECRETS_MAX);
    s->items = xcalloc(SECRETS_MAX, sizeof *s->items);
    json_array_foreach (list, i, object)
        if (take_secret(&s->items[s->count++], object, e) < 0)
            return -1;
    return 0;
}

void secrets_fini(struct secrets *s)
{
    for (size_t i = 0; i < s->count; i++) {
        struct secret *secret = &s->items[i];
        if (secret->value)
            explicit_bzero(secret->value, strlen(secret->value));
        if (secret->percent)
            explicit_bzero(secret->percent, strlen(secret->percent));
        for (size_t k = 0; k < secret->host_count; k++)
            free(secret->hosts[k]);
        free(secret->hosts);
        free(secret->value);
        free(secret->percent);
        free(secret->placeholder);
        free(secret->name);
    }
    free(s->items);
    *s = (struct secrets){0};
}

bool secret_is_for(const struct secret *secret, const char *host)
{
    for (size_t i = 0; i < secret->host_count; i++)
        if (host_pattern_matches(secret->hosts[i], host))
            return true;
    return false;
}

bool secrets_have_any_for(const struct secrets *s, const char *host)
{
    for (size_t i = 0; i < s->count; i++)
        if (secret_is_for(&s->items[i], host))
            return true;
    return false;
}

void secret_show_hosts(const struct secret *secret, struct buf *out)
{
    for (size_t i = 0; i < secret->host_count; i++) {
        if (out->len > HOSTS_SHOWN_BYTES) {
            buf_adds(out, " ...");
            return;
        }
        buf_printf(out, "%s%s", i ? ", " : "", secret->hosts[i]);
    }
}

const struct secret *secrets_find(const struct secrets *s, const char *text, size_t len, size_t *at)
{
    const struct secret *first = NULL;
    for (size_t i = 0; i < s->count; i++) {
        const char *placeholder = s->items[i].placeholder;
        const char *found = memmem(text, len, placeholder, strlen(placeholder));
        if (found && (!first || (size_t)(found - text) < *at)) {
            first = &s->items[i];
            *at = (size_t)(found - text);
        }
    }
    return first;
}
