// SPDX-License-Identifier: Apache-2.0
// Rules of one sandbox.
#include "sandbox-backend/egress/rules.h"

#include <string.h>
#include <strings.h>

#include "sandbox-backend/base/host_pattern.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

static int take_header(struct rule *rule, const char *name, const json_t *value, struct err *e)
{
    const char *text = json_string_value(value);
    if (!*name || strlen(name) > RULE_NAME_BYTES_MAX)
        return err_set(e, ERR_INVALID, "a header's name must have 1 to %d bytes",
                       RULE_NAME_BYTES_MAX);
    if (!text || json_string_length(value) > RULE_VALUE_BYTES_MAX)
        return err_set(e, ERR_INVALID, "header %s must be text of at most %d bytes", name,
                       RULE_VALUE_BYTES_MAX);
    for (const char *c = text; *c || c < text + json_string_length(value); c++)
        if ((unsigned char)*c < ' ' || *c == 0x7F)
            return err_set(e, ERR_INVALID, "header %s has a control character", name);
    rule->headers[rule->count++] =
        (struct rule_header){.name = xstrdup(name), .value = xstrdup(text)};
    return 0;
}

static int take_rule(struct rule *rule, const json_t *object, struct err *e)
{
    const char *host = NULL, *name;
    json_t *headers = json_object_get(object, "headers"), *value;
    if (json_get_string(object, "host", &host, NULL, e) < 0)
        return err_wrap(e, "a rule");
    if (!host || host_pattern_check(host, e) < 0)
        return host ? -1 : err_set(e, ERR_INVALID, "a rule has no host");
    rule->host = xstrdup(host);
    if (!json_is_object(headers) || json_object_size(headers) > RULE_HEADERS_MAX)
        return err_set(e, ERR_INVALID, "the rule for %s must have at most %d headers", host,
                       RULE_HEADERS_MAX);
    rule->headers = xcalloc(RULE_HEADERS_MAX, sizeof *rule->headers);
    json_object_foreach (headers, name, value)
        if (take_header(rule, name, value, e) < 0)
            return err_wrap(e, "the rule for %s", host);
    return 0;
}

int rules_from_json(struct rules *r, const json_t *list, struct err *e)
{
    size_t i;
    const json_t *object;
    *r = (struct rules){0};
    if (!list)
        return 0;
    if (!json_is_array(list) || json_array_size(list) > RULES_MAX)
        return err_set(e, ERR_INVALID, "rules must be a list of at most %d rules", RULES_MAX);
    r->items = xcalloc(RULES_MAX, sizeof *r->items);
    json_array_foreach (list, i, object)
        if (take_rule(&r->items[r->count++], object, e) < 0)
            return -1;
    return 0;
}

void rules_fini(struct rules *r)
{
    for (size_t i = 0; i < r->count; i++) {
        struct rule *rule = &r->items[i];
        for (size_t k = 0; k < rule->count; k++) {
            explicit_bzero(rule->headers[k].value, strlen(rule->headers[k].value));
            free(rule->headers[k].value);
            free(rule->headers[k].name);
        }
        free(rule->headers);
        free(rule->host);
    }
    free(r->items);
    *r = (struct rules){0};
}

// Rank a rule for this host: 0, it is not for the host; else higher for a better match.
static size_t rank(const struct rule *rule, const char *host)
{
    bool wild = str_starts(rule->host, "*.");
    if (!host_pattern_matches(rule->host, host))
        return 0;
    return wild ? strlen(rule->host) : SIZE_MAX;
}

const struct rule *rules_for(const struct rules *r, const char *host)
{
    const struct rule *best = NULL;
    size_t best_rank = 0;
    for (size_t i = 0; i < r->count; i++) {
        size_t its = rank(&r->items[i], host);
        if (its > best_rank) {
            best = &r->items[i];
            best_rank = its;
        }
    }
    return best;
}

bool rule_sets(const struct rule *rule, const char *header)
{
    for (size_t i = 0; rule && i < rule->count; i++)
        if (strcasecmp(rule->headers[i].name, header) == 0)
            return true;
    return false;
}
