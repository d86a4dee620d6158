// SPDX-License-Identifier: Apache-2.0
// The wishes with which a caller created a sandbox that has a name.
#include "mcp-server/tools/owner/named_spec.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define USUAL_NETWORK "usual-network" // in force without `network`, unless a snapshot has its own

static const char *string_in(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

// ---- the spec of a new sandbox

// The operator's policy may be a file, which cannot be compared.
static void add_network(const struct tool_call *c, json_t *spec)
{
    const char *usual = c->context->config->network;
    if (tool_call_string(c, "network"))
        json_object_set(spec, "network", json_object_get(c->args, "network"));
    else if (!usual)
        json_object_set_new(spec, USUAL_NETWORK, json_string("public"));
    else if (str_eq(usual, "none") || str_eq(usual, "public"))
        json_object_set_new(spec, "network", json_string(usual));
}

json_t *named_spec_new(const struct tool_call *c, const char *template)
{
    static const char *const SIZES[] = {"cpus", "memory_mb"};
    json_t *spec = json_pack("{s:s}", "template", template);
    add_network(c, spec);
    for (size_t i = 0; i < ARRAY_LEN(SIZES); i++)
        if (json_object_get(c->args, SIZES[i]))
            json_object_set(spec, SIZES[i], json_object_get(c->args, SIZES[i]));
    if (json_object_get(c->args, "mounts"))
        json_object_set(spec, "mounts", json_object_get(c->args, "mounts"));
    return spec;
}

// ---- the comparison with an existing one

json_t *named_spec_in(const json_t *info)
{
    struct err ignored = ERR_INIT;
    const char *text = string_in(json_object_get(info, "metadata"), NAMED_SPEC_KEY);
    return text ? json_parse(text, strlen(text), &ignored) : NULL;
}

// A template may have several names.
static bool is_template(const json_t *has, const json_t *info, const char *asked)
{
    return str_eq(string_in(has, "template"), asked) ||
           str_eq(string_in(info, "templateID"), asked);
}

// The backend's list has the size also where nobody has asked for one.
static bool is_size(const json_t *has, const json_t *info, const char *key, const json_t *asked)
{
    const json_t *real = json_object_get(info, str_eq(key, "cpus") ? "cpuCount" : "memoryMB");
    return json_equal(json_is_integer(real) ? real : json_object_get(has, key), asked);
}

static int compare_words(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

// Return the hosts of `network` in small letters, sorted, each once and followed by a comma; new
// string.
static char *hosts_of(const char *network)
{
    char *copy auto_free = xstrdup(network);
    char **words auto_free = xcalloc(strlen(network) + 1, sizeof *words);
    struct buf out = BUF_INIT;
    size_t count = 0;
    for (char *at = copy; *at; at++)
        *at = (char)tolower((unsigned char)*at);
    char *rest = copy;
    for (char *w = strtok_r(rest, ", ", &rest); w; w = strtok_r(NULL, ", ", &rest))
        words[count++] = w;
    qsort(words, count, sizeof *words, compare_words);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || !str_eq(words[i], words[i - 1]))
            buf_printf(&out, "%s,", words[i]);
    return buf_take(&out);
}

// cubbyd lists a sandbox from a snapshot under the snapshot's id, with the template as its alias.
static bool is_network(const json_t *has, const json_t *info, const char *asked)
{
    bool is_of_template = str_eq(string_in(info, "templateID"), string_in(info, "alias"));
    const char *network = string_in(has, "network");
    if (!network && is_of_template)
        network = string_in(has, USUAL_NETWORK);
    if (!network)
        return false;
    char *old auto_free = hosts_of(network);
    char *new auto_free = hosts_of(asked);
    return str_eq(old, new);
}

static bool is_same(const json_t *has, const json_t *info, const char *key, const json_t *asked)
{
    if (str_eq(key, "template"))
        return is_template(has, info, json_string_value(asked));
    if (str_eq(key, "network"))
        return is_network(has, info, json_string_value(asked));
    if (str_eq(key, "mounts"))
        return json_equal(json_object_get(has, key), asked);
    return is_size(has, info, key, asked);
}

const char *named_spec_other(const struct tool_call *c, const json_t *info, const char **what)
{
    static const char *const KEYS[][2] = {{"template", "template"},
                                          {"network", "network"},
                                          {"cpus", "number of cpus"},
                                          {"memory_mb", "memory size"},
                                          {"mounts", "list of mounts"}};
    json_t *has = named_spec_in(info);
    const char *bad = NULL;
    for (size_t i = 0; i < ARRAY_LEN(KEYS) && !bad; i++) {
        const json_t *asked = json_object_get(c->args, KEYS[i][0]);
        if (asked && !is_same(has, info, KEYS[i][0], asked)) {
            bad = KEYS[i][0];
            *what = KEYS[i][1];
        }
    }
    json_decref(has);
    return bad;
}
