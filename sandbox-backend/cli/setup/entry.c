// SPDX-License-Identifier: Apache-2.0
// cubby setup: the entry of a client, and what becomes of one that is there.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/setup/setup.h"

#define PROGRAM    "cubby-mcp"
#define STRUCTURED "--structured"

// Return the server's environment: a desktop starts it without the variables of this shell.
static json_t *new_env(void)
{
    const char *home = getenv("CUBBY_HOME");
    return home && *home ? json_pack("{s:s}", "CUBBY_HOME", home) : NULL;
}

// Goose has its own words for the same.
static json_t *new_goose(const char *program, json_t *args)
{
    return json_pack("{s:b, s:s, s:s, s:s, s:s, s:O, s:i, s:o*}", "enabled", 1, "type", "stdio",
                     "name", ENTRY_NAME, "description", "Sandboxes on this computer", "cmd",
                     program, "args", args, "timeout", 300, "envs", new_env());
}

static json_t *new_usual(const struct setup_client *client, const char *program, json_t *args)
{
    bool has_args = json_array_size(args) || client->has_empty;
    return json_pack("{s:s*, s:s, s:O*, s:o*}", "type", client->has_type ? "stdio" : NULL,
                     "command", program, "args", has_args ? args : NULL, "env", new_env());
}

json_t *entry_new(const struct setup_client *client, const json_t *command)
{
    const char *program = json_string_value(json_array_get(command, 0));
    json_t *args = json_array();
    for (size_t i = 1; i < json_array_size(command); i++)
        json_array_append(args, json_array_get(command, i));
    if (client->plain) {
        json_array_append_new(args, json_string(STRUCTURED));
        json_array_append_new(args, json_string("off"));
    }
    json_t *entry =
        client->format == FORMAT_YAML ? new_goose(program, args) : new_usual(client, program, args);
    json_decref(args);
    return entry;
}

// ---- an entry that is there

// Tell whether a word of a launcher names the program or its package, such as cubby-mcp@latest.
static bool is_program(const json_t *word)
{
    const char *text = json_string_value(word);
    const char *name = text ? strstr(text, PROGRAM) : NULL;
    if (!name || (name > text && name[-1] != '/' && name[-1] != '='))
        return false;
    name += strlen(PROGRAM);
    return !*name || *name == '@' || str_starts(name, "==");
}

// Return the server's own options in an entry. All words up to its name belong to a launcher such
// as npx. If an entry does not name it, all words belong to another program. New reference.
static json_t *own_args(const json_t *old)
{
    const char *command = json_string_value(json_object_get(old, "command"));
    const json_t *args = json_object_get(old, "args");
    size_t i = 0, count = json_array_size(args);
    json_t *own = json_array();
    if (!command || !str_eq(str_base(command), PROGRAM)) {
        while (i < count && !is_program(json_array_get(args, i)))
            i++;
        while (i < count && is_program(json_array_get(args, i)))
            i++;
    }
    for (; i < count; i++)
        json_array_append(own, json_array_get(args, i));
    return own;
}

static bool has_structured(const json_t *args)
{
    for (size_t i = 0; i < json_array_size(args); i++) {
        const char *word = json_string_value(json_array_get(args, i));
        if (str_eq(word, STRUCTURED) || (word && str_starts(word, STRUCTURED "=")))
            return true;
    }
    return false;
}

// Return the words of the new entry, without options that the old one sets, and then the old
// options. New reference.
static json_t *merge_args(const json_t *old, const json_t *entry)
{
    json_t *own = own_args(old);
    json_t *args = json_array();
    const json_t *new_args = json_object_get(entry, "args");
    for (size_t i = 0; i < json_array_size(new_args); i++) {
        json_t *word = json_array_get(new_args, i);
        if (str_eq(json_string_value(word), STRUCTURED) && has_structured(own))
            i++;
        else
            json_array_append(args, word);
    }
    json_array_extend(args, own);
    json_decref(own);
    return args;
}

// An entry of a server that is reached by a URL becomes one that is started.
static void drop_url(json_t *entry)
{
    static const char *const REMOTE[] = {"url", "httpUrl", "serverUrl", "headers"};
    for (size_t i = 0; i < ARRAY_LEN(REMOTE); i++)
        json_object_del(entry, REMOTE[i]);
    const char *type = json_string_value(json_object_get(entry, "type"));
    if (type && !str_eq(type, "stdio"))
        json_object_del(entry, "type");
}

json_t *entry_merge(json_t *old, json_t *entry)
{
    if (!json_is_object(old))
        return json_deep_copy(entry);
    json_t *merged = json_deep_copy(old);
    json_t *args = merge_args(old, entry);
    json_t *env = json_object_get(merged, "env");
    const char *name = NULL;
    json_t *value = NULL;
    drop_url(merged);
    json_object_foreach (entry, name, value)
        if (!str_eq(name, "args") && !str_eq(name, "env"))
            json_object_set_new(merged, name, json_deep_copy(value));
    if (json_array_size(args) || json_object_get(old, "args") || json_object_get(entry, "args"))
        json_object_set(merged, "args", args);
    value = json_object_get(entry, "env");
    if (value && json_is_object(env))
        json_object_update(env, value);
    else if (value)
        json_object_set_new(merged, "env", json_deep_copy(value));
    json_decref(args);
    return merged;
}
