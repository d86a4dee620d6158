// SPDX-License-Identifier: Apache-2.0
// network.rules of a create request.
#include "sandbox-backend/daemon/secrets/header_rules.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/host_pattern.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define HOSTS_MAX       64 // as cubby-egress has them (egress/rules.h), as the next three
#define HEADERS_MAX     32
#define NAME_BYTES_MAX  128
#define VALUE_BYTES_MAX 8192
#define LIST_MAX        16 // rules of one host
#define MARK            "${e2b."
#define SECRET_MARK     MARK "secrets."
#define TOKEN_CHARS                                                  \
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789" \
    "!#$%&'*+-.^_`|~" // RFC 9110, 5.6.2

// ---- marks: ${e2b.secrets.NAME} in a value

// Find the next mark in *at. *secret becomes its name (a new string) and *at what follows it.
// Return the bytes before the mark, or SIZE_MAX if there is no complete mark of a secret.
static size_t next_mark(const char **at, char **secret)
{
    const char *from = *at;
    const char *mark = strstr(from, SECRET_MARK);
    const char *name = mark ? mark + strlen(SECRET_MARK) : NULL;
    const char *end = name ? strchr(name, '}') : NULL;
    if (!end || end == name)
        return SIZE_MAX;
    *secret = xstrndup(name, (size_t)(end - name));
    *at = end + 1;
    return (size_t)(mark - from);
}

static int check_marks(const char *value, struct err *e)
{
    for (const char *mark = value; (mark = strstr(mark, MARK)); mark++) {
        const char *at = mark;
        char *secret auto_free = NULL;
        if (next_mark(&at, &secret) == 0)
            continue;
        return err_set(e, ERR_INVALID,
                       "\"%.60s\" is not available here: a value may hold ${e2b.secrets.NAME}, "
                       "and no workload identity (iam)",
                       mark);
    }
    return 0;
}

// ---- checks
static int check_header_name(const char *name, struct err *e)
{
    static const char *const TAKEN[] = {"Host",    "Content-Length", "Transfer-Encoding",
                                        "TE",      "Connection",     "Keep-Alive",
                                        "Trailer", "Upgrade",        "Expect"};
    size_t len = strlen(name);
    if (!len || len > NAME_BYTES_MAX || strspn(name, TOKEN_CHARS) != len)
        return err_set(e, ERR_INVALID, "\"%.80s\" is not a header's name", name);
    bool taken = strncasecmp(name, "Proxy-", 6) == 0;
    for (size_t i = 0; i < ARRAY_LEN(TAKEN); i++)
        taken = taken || strcasecmp(name, TAKEN[i]) == 0;
    if (taken)
        return err_set(e, ERR_INVALID, "header %s belongs to the connection: no rule may set it",
                       name);
    return 0;
}

static int check_header(const char *name, const json_t *value, struct err *e)
{
    const char *text = json_string_value(value);
    if (check_header_name(name, e) < 0)
        return -1;
    if (!text || strlen(text) > VALUE_BYTES_MAX)
        return err_set(e, ERR_INVALID, "header %s must be a string of at most %d bytes", name,
                       VALUE_BYTES_MAX);
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7F)
            return err_set(e, ERR_INVALID, "header %s has a control character", name);
    return check_marks(text, e) < 0 ? err_wrap(e, "header %s", name) : 0;
}

// Return the only member of an object, or NULL if it is absent or null. ERR_INVALID for other
// members, and for a value that is not an object.
static json_t *only_member(const json_t *object, const char *key, struct err *e)
{
    const char *name;
    json_t *value, *found = NULL;
    if (!json_is_object(object))
        err_set(e, ERR_INVALID, "each rule must be {\"transform\": {\"headers\": {...}}}");
    json_object_foreach ((json_t *)(uintptr_t)object, name, value) {
        if (!str_eq(name, key))
            err_set(e, ERR_INVALID, "unknown member %.60s; a rule has transform.headers", name);
        else if (!json_is_null(value))
            found = value;
    }
    return found;
}

static const json_t *headers_of(const json_t *rule, struct err *e)
{
    const json_t *transform = only_member(rule, "transform", e);
    const json_t *headers = transform ? only_member(transform, "headers", e) : NULL;
    if (headers && !json_is_object(headers))
        err_set(e, ERR_INVALID, "transform.headers must be an object of strings");
    return headers;
}

static int check_host(const char *host, const json_t *list, struct err *e)
{
    size_t i, count = 0;
    const json_t *rule;
    if (host_pattern_check(host, e) < 0)
        return -1;
    if (!json_is_array(list) || json_array_size(list) > LIST_MAX)
        return err_set(e, ERR_INVALID, "it must be a list of at most %d rules", LIST_MAX);
    json_array_foreach (list, i, rule) {
        const json_t *headers = headers_of(rule, e);
        const char *name;
        json_t *value;
        json_object_foreach ((json_t *)(uintptr_t)headers, name, value)
            if (!err_is(e))
                check_header(name, value, e);
        count += json_object_size(headers);
    }
    if (!err_is(e) && count > HEADERS_MAX)
        err_set(e, ERR_INVALID, "its rules may set %d headers", HEADERS_MAX);
    return err_is(e) ? -1 : 0;
}

int header_rules_parse(const json_t *rules, json_t **out, struct err *e)
{
    const char *host;
    json_t *list;
    *out = NULL;
    if (!rules || json_is_null(rules))
        return 0;
    if (!json_is_object(rules) || json_object_size(rules) > HOSTS_MAX)
        return err_set(e, ERR_INVALID, "network.rules must be an object of at most %d hosts",
                       HOSTS_MAX);
    json_t *all = json_object();
    json_object_foreach ((json_t *)(uintptr_t)rules, host, list) {
        char *lower auto_free = xstrdup(host);
        for (char *c = lower; *c; c++)
            *c = (char)tolower((unsigned char)*c);
        if (err_is(e))
            break;
        if (check_host(lower, list, e) == 0 && json_object_get(all, lower))
            err_set(e, ERR_INVALID, "it is given twice");
        json_object_set(all, lower, list);
        if (err_is(e))
            err_wrap(e, "network.rules: %.80s", lower);
    }
    if (!err_is(e) && json_object_size(all))
        *out = json_incref(all);
    json_decref(all);
    return err_is(e) ? -1 : 0;
}

// ---- use
static int each_of_value(const char *host, const char *value, header_rules_use *use, void *ctx,
                         struct err *e)
{
    for (;;) {
        char *secret auto_free = NULL;
        if (next_mark(&value, &secret) == SIZE_MAX)
            return 0;
        if (use(host, secret, ctx, e) < 0)
            return -1;
    }
}

int header_rules_each(const json_t *rules, header_rules_use *use, void *ctx, struct err *e)
{
    const char *host, *name;
    json_t *list, *value;
    size_t i;
    const json_t *rule;
    json_object_foreach ((json_t *)(uintptr_t)rules, host, list)
        json_array_foreach (list, i, rule) {
            json_t *headers = json_object_get(json_object_get(rule, "transform"), "headers");
            json_object_foreach (headers, name, value)
                if (each_of_value(host, json_string_value(value), use, ctx, e) < 0)
                    return -1;
        }
    return 0;
}

static char *with_placeholders(const char *value, const json_t *given)
{
    struct buf out = BUF_INIT;
    for (;;) {
        const char *from = value;
        char *secret auto_free = NULL;
        size_t before = next_mark(&value, &secret);
        if (before == SIZE_MAX)
            break;
        const json_t *its = json_object_get(given, secret);
        const char *placeholder = json_string_value(json_object_get(its, "placeholder"));
        buf_add(&out, from, before);
        buf_adds(&out, placeholder ? placeholder : "");
    }
    buf_adds(&out, value);
    return buf_take(&out);
}

// A later rule replaces a header of an earlier one, whatever the case of its name.
static void set_header(json_t *headers, const char *name, const char *value)
{
    const char *other, *same = NULL;
    json_t *unused;
    json_object_foreach (headers, other, unused)
        if (strcasecmp(other, name) == 0)
            same = other;
    if (same)
        json_object_del(headers, same);
    json_object_set_new(headers, name, json_string(value));
}

json_t *header_rules_for_egress(const json_t *rules, const json_t *given)
{
    const char *host, *name;
    json_t *list, *value, *out = json_array();
    size_t i;
    const json_t *rule;
    json_object_foreach ((json_t *)(uintptr_t)rules, host, list) {
        json_t *headers = json_object();
        json_array_foreach (list, i, rule) {
            json_t *its = json_object_get(json_object_get(rule, "transform"), "headers");
            json_object_foreach (its, name, value) {
                char *text auto_free = with_placeholders(json_string_value(value), given);
                set_header(headers, name, text);
            }
        }
        json_array_append_new(out, json_pack("{s:s, s:o}", "host", host, "headers", headers));
    }
    return out;
}

int header_rules_check_filled(const json_t *rules, const json_t *given, struct err *e)
{
    json_t *filled = header_rules_for_egress(rules, given);
    char *text auto_free = json_to_string(filled);
    const json_t *rule;
    const char *name;
    json_t *value;
    size_t i;
    if (strlen(text) > HEADER_RULES_BYTES_MAX)
        err_set(e, ERR_INVALID,
                "network.rules may have %d bytes, where each ${e2b.secrets.NAME} counts as the 45 "
                "bytes of its placeholder",
                HEADER_RULES_BYTES_MAX);
    json_array_foreach (filled, i, rule)
        json_object_foreach (json_object_get(rule, "headers"), name, value)
            if (json_string_length(value) > VALUE_BYTES_MAX)
                err_set(e, ERR_INVALID,
                        "network.rules: %.80s: header %s may have %d bytes, where each "
                        "${e2b.secrets.NAME} counts as the 45 bytes of its placeholder",
                        json_string_value(json_object_get(rule, "host")), name, VALUE_BYTES_MAX);
    json_decref(filled);
    return err_is(e) ? -1 : 0;
}
