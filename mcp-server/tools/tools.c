// SPDX-License-Identifier: Apache-2.0
// The tools: what is offered. schemas/tools.json is the one source of names, descriptions, schemas
// and order; TOOLS joins a name to its functions.
#include "mcp-server/tools/tools.h"

#include "mcp-server/catalog.h"
#include "mcp-server/tools/text.h"
#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"
#include "schemas.h"

static const struct tool *const SHIPPED[] = {
    &TOOL_LIST_SANDBOXES,  &TOOL_CREATE_SANDBOX,  &TOOL_KILL_SANDBOX,      &TOOL_RUN_COMMAND,
    &TOOL_RUN_PYTHON_CODE, &TOOL_START_COMMAND,   &TOOL_READ_OUTPUT,       &TOOL_SEND_INPUT,
    &TOOL_STOP_COMMAND,    &TOOL_READ_FILE,       &TOOL_WRITE_FILE,        &TOOL_EDIT_FILE,
    &TOOL_LIST_FILES,      &TOOL_UPLOAD,          &TOOL_DOWNLOAD_INTERNET, &TOOL_DOWNLOAD_LOCAL,
    &TOOL_PAUSE_SANDBOX,   &TOOL_RESUME_SANDBOX,  &TOOL_SNAPSHOT_SANDBOX,  &TOOL_ROLLBACK_SANDBOX,
    &TOOL_FORK_SANDBOX,    &TOOL_DELETE_SNAPSHOT, &TOOL_EXPOSE_PORT,
};

const struct tool_set TOOLS = {SCHEMA_tools, sizeof SCHEMA_tools - 1, SHIPPED, ARRAY_LEN(SHIPPED),
                               .terse = true};

// Names for several at once, for --tools and --disable-tool.
#define TOOLSET_MAX 6
static const struct toolset {
    const char *name;
    const struct tool *tools[TOOLSET_MAX + 1];
} TOOLSETS[] = {
    {"sandboxes", {&TOOL_LIST_SANDBOXES, &TOOL_CREATE_SANDBOX, &TOOL_KILL_SANDBOX}},
    {"run", {&TOOL_RUN_COMMAND, &TOOL_RUN_PYTHON_CODE}},
    {"background",
     {&TOOL_START_COMMAND, &TOOL_READ_OUTPUT, &TOOL_SEND_INPUT, &TOOL_STOP_COMMAND,
      &TOOL_EXPOSE_PORT}},
    {"files", {&TOOL_READ_FILE, &TOOL_WRITE_FILE, &TOOL_EDIT_FILE, &TOOL_LIST_FILES}},
    {"transfer", {&TOOL_UPLOAD, &TOOL_DOWNLOAD_INTERNET, &TOOL_DOWNLOAD_LOCAL}},
    {"lifecycle",
     {&TOOL_PAUSE_SANDBOX, &TOOL_RESUME_SANDBOX, &TOOL_SNAPSHOT_SANDBOX, &TOOL_ROLLBACK_SANDBOX,
      &TOOL_FORK_SANDBOX, &TOOL_DELETE_SNAPSHOT}},
};
// What MiroFlow's own server has.
static const struct toolset MIROFLOW = {"miroflow",
                                        {&TOOL_CREATE_SANDBOX, &TOOL_RUN_COMMAND,
                                         &TOOL_RUN_PYTHON_CODE, &TOOL_UPLOAD,
                                         &TOOL_DOWNLOAD_INTERNET, &TOOL_DOWNLOAD_LOCAL}};

// ---- which are offered

static bool is_in_set(const struct toolset *set, const struct tool *tool)
{
    for (size_t i = 0; set->tools[i]; i++)
        if (set->tools[i] == tool)
            return true;
    return false;
}

// By its own name, or by that of a set it is in.
static bool is_named(const struct opt_list *names, const struct tool *tool)
{
    for (int i = 0; i < names->count; i++) {
        if (str_eq(names->items[i], tool->name))
            return true;
        for (size_t k = 0; k < ARRAY_LEN(TOOLSETS); k++)
            if (str_eq(names->items[i], TOOLSETS[k].name) && is_in_set(&TOOLSETS[k], tool))
                return true;
    }
    return false;
}

static bool is_wanted(const struct config *c, const struct tool *tool)
{
    if (is_named(&c->disabled, tool))
        return false;
    if (c->tools.count > 0)
        return is_named(&c->tools, tool);
    return !config_is_miroflow(c) || is_in_set(&MIROFLOW, tool);
}

// Over HTTP "local" is the server, not the user: its files are opened only on purpose.
static bool is_out_of_reach(const struct toolbox *t, const struct tool *tool)
{
    return (tool == &TOOL_UPLOAD || tool == &TOOL_DOWNLOAD_LOCAL) && t->config->http &&
           t->config->local_dirs.count == 0;
}

static const struct tool *tool_named(const struct tool_set *set, const char *name)
{
    for (size_t i = 0; i < set->count; i++)
        if (str_eq(set->tools[i]->name, name))
            return set->tools[i];
    return NULL;
}

static void offer_set(struct toolbox *t, const struct tool_set *set)
{
    struct err e = ERR_INIT;
    json_t *schemas = json_parse(set->schemas, set->schemas_len, &e);
    if (!schemas)
        log_error("tools.schema", "error=%s", e.msg);
    json_array_append_new(t->schemas, schemas ? schemas : json_array());
    t->offers =
        xrealloc(t->offers, (t->offer_count + json_array_size(schemas)) * sizeof *t->offers);
    size_t i;
    const json_t *one;
    json_array_foreach(schemas, i, one)
    {
        const char *name = json_string_value(json_object_get(one, "name"));
        const struct tool *tool = tool_named(set, name);
        if (tool && is_wanted(t->config, tool) && !is_out_of_reach(t, tool))
            t->offers[t->offer_count++] = (struct offer){tool, one, set->terse};
    }
}

static void make_offers(struct toolbox *t)
{
    if (t->schemas)
        return;
    t->schemas = json_array();
    for (const struct tool_set *const *set = CATALOG.tools; *set; set++)
        offer_set(t, *set);
}

const struct offer *tools_find(struct toolbox *t, const char *name)
{
    make_offers(t);
    for (size_t i = 0; i < t->offer_count; i++)
        if (str_eq(t->offers[i].tool->name, name))
            return &t->offers[i];
    return NULL;
}

// Every model pays for what it is shown. It needs no lengths and patterns, no bounds that nobody
// meets who means well, nor to be told that there are no further arguments, and that a flag is off:
// an error says the like to those who try.
#define SHOWN_MAXIMUM 1000

// A default that anybody would think of.
static bool is_plain(const json_t *one)
{
    const json_t *value = json_object_get(one, "default");
    const json_t *first = json_array_get(json_object_get(one, "enum"), 0);
    json_int_t number = json_is_integer(value) ? json_integer_value(value) : -1;
    return json_is_false(value) || number == 0 || number == 1 ||
           (first && json_equal(value, first));
}

static json_t *terse(const json_t *schema)
{
    json_t *shown = json_deep_copy(schema);
    json_t *properties = json_object_get(shown, "properties");
    const char *name;
    json_t *one;
    if (json_object_size(properties) > 0 &&
        json_is_false(json_object_get(shown, "additionalProperties")))
        json_object_del(shown, "additionalProperties");
    json_object_foreach(properties, name, one)
    {
        json_object_del(one, "minLength");
        json_object_del(one, "maxLength");
        json_object_del(one, "pattern");
        json_object_del(one, "minimum");
        if (json_number_value(json_object_get(one, "maximum")) > SHOWN_MAXIMUM)
            json_object_del(one, "maximum");
        if (is_plain(one))
            json_object_del(one, "default");
    }
    return shown;
}

static json_t *described(const struct toolbox *t, const struct offer *offer, const struct era *era)
{
    json_t *shown = json_copy((json_t *)(uintptr_t)offer->schema);
    if (offer->terse)
        json_object_set_new(shown, "inputSchema",
                            terse(json_object_get(offer->schema, "inputSchema")));
    if (!era->annotations)
        json_object_del(shown, "annotations");
    if (!era->structured)
        json_object_del(shown, "title");
    if (!era->structured || !t->text->structured)
        json_object_del(shown, "outputSchema");
    if (!era->icons)
        json_object_del(shown, "icons");
    return shown;
}

json_t *tools_list(struct toolbox *t, const struct era *era)
{
    make_offers(t);
    json_t *list = json_array();
    for (size_t i = 0; i < t->offer_count; i++)
        json_array_append_new(list, described(t, &t->offers[i], era));
    return list;
}

// ---- what may be chosen

static bool exists(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(TOOLSETS); i++)
        if (str_eq(name, TOOLSETS[i].name))
            return true;
    for (const struct tool_set *const *set = CATALOG.tools; *set; set++)
        if (tool_named(*set, name))
            return true;
    return false;
}

static char *complaint_of(const char *option, const struct opt_list *names)
{
    int bad = 0;
    while (bad < names->count && exists(names->items[bad]))
        bad++;
    if (bad == names->count)
        return NULL;
    struct buf out = BUF_INIT;
    buf_printf(&out, "%s: there is no tool \"%s\". Toolsets:", option, names->items[bad]);
    for (size_t i = 0; i < ARRAY_LEN(TOOLSETS); i++)
        buf_printf(&out, "%s %s", i ? "," : "", TOOLSETS[i].name);
    buf_adds(&out, ". Tools:");
    for (const struct tool_set *const *set = CATALOG.tools; *set; set++)
        for (size_t i = 0; i < (*set)->count; i++)
            buf_printf(&out, "%s %s", i ? "," : "", (*set)->tools[i]->name);
    return buf_take(&out);
}

char *tools_complaint(const struct config *c)
{
    char *complaint = complaint_of("--tools", &c->tools);
    return complaint ? complaint : complaint_of("--disable-tool", &c->disabled);
}
