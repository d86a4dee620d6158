// SPDX-License-Identifier: Apache-2.0
// The tools that are offered. A set's JSON is the one source of names, order, descriptions and
// schemas, and of what the member "cubby" says of each tool:
//
//   toolset      its name for --tools and --disable-tool, beside its own
//   miroflow     true: offered in the miroflow profile, as MiroFlow's own server has it
//   local_files  true: reads or writes files of the machine that this server runs on
//   aliases      other names that models give to arguments
//   view         its view, for hosts that show one (protocol/apps.h)
//
// A description may depend on the options and the caller: see tool_text.h. `_meta` has hints for
// Claude Code: load the tool at once (anthropic/alwaysLoad), and how many characters of a result to
// show before it is put into a file (anthropic/maxResultSizeChars), because results are bounded
// here already.
#include "mcp-server/tools/call/tools.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "mcp-server/context/catalog.h"
#include "mcp-server/protocol/apps.h"
#include "mcp-server/tools/call/tool_text.h"
#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"

struct offers {
    struct offer *list; // owned
    size_t count;
    struct offer **by_name; // owned; the same, sorted
};

static json_t *parse_definitions(const char *text, size_t len)
{
    struct err e = ERR_INIT;
    json_t *parsed = json_parse(text, len, &e);
    if (!parsed)
        log_error("tools.schema", "error=%s", e.msg);
    return parsed;
}

static const char *name_of(const json_t *definition)
{
    return json_string_value(json_object_get(definition, "name"));
}

static const char *toolset_of(const json_t *definition)
{
    return json_string_value(json_object_get(json_object_get(definition, "cubby"), "toolset"));
}

static bool is_marked(const json_t *definition, const char *mark)
{
    return json_is_true(json_object_get(json_object_get(definition, "cubby"), mark));
}

// ---- which are offered

static bool is_named(const struct opt_list *names, const json_t *definition)
{
    for (int i = 0; i < names->count; i++)
        if (str_eq(names->items[i], name_of(definition)) ||
            str_eq(names->items[i], toolset_of(definition)))
            return true;
    return false;
}

static bool is_wanted(const struct config *c, const json_t *definition)
{
    if (is_named(&c->disabled, definition))
        return false;
    if (c->tools.count > 0)
        return is_named(&c->tools, definition);
    return !config_is_miroflow(c) || is_marked(definition, "miroflow");
}

// Over HTTP "local" is the server's machine, not the user's: its files are opened only on purpose.
static bool is_out_of_reach(const struct config *c, const json_t *definition)
{
    return is_marked(definition, "local_files") && c->http && c->local_dirs.count == 0;
}

// Without options every tool is offered, and no definition needs to be read to know that.
static bool has_choices(const struct config *c)
{
    return c->http || c->tools.count > 0 || c->disabled.count > 0 || config_is_miroflow(c);
}

// Return the end of the JSON object that starts at `at`. The text is ours, so it is valid.
static const char *object_end(const char *at)
{
    int depth = 0;
    do {
        if (*at == '"')
            for (at++; *at != '"'; at++)
                at += *at == '\\';
        depth += (*at == '{') - (*at == '}');
        at++;
    } while (depth > 0);
    return at;
}

// Take the definition that begins behind `at`, without parsing it. Return its end.
static const char *take_definition(struct offer *offer, const char *at)
{
    offer->text = strchr(at, '{');
    const char *end = object_end(offer->text);
    offer->len = (size_t)(end - offer->text);
    return end;
}

const json_t *tools_definition(struct offer *offer)
{
    if (!offer->definition)
        offer->definition = parse_definitions(offer->text, offer->len);
    assert(str_eq(name_of(offer->definition), offer->tool->name)); // see struct tool_set
    return offer->definition;
}

static bool is_offered(const struct config *c, struct offer *offer)
{
    if (offer->tool->is_allowed && !offer->tool->is_allowed(c))
        return false;
    if (!has_choices(c))
        return true;
    const json_t *definition = tools_definition(offer);
    if (is_wanted(c, definition) && !is_out_of_reach(c, definition))
        return true;
    json_decref(offer->definition);
    return false;
}

static void offer_set(struct context *cx, struct offers *o, const struct tool_set *set)
{
    const char *at = set->schemas;
    o->list = xrealloc(o->list, (o->count + set->count) * sizeof *o->list);
    for (size_t i = 0; i < set->count; i++) {
        struct offer *one = &o->list[o->count];
        *one = (struct offer){.tool = set->tools[i], .terse = set->terse};
        at = take_definition(one, at);
        o->count += is_offered(cx->config, one);
    }
}

static int compare_offers(const void *a, const void *b)
{
    const struct offer *const *x = a, *const *y = b;
    return strcmp((*x)->tool->name, (*y)->tool->name);
}

static int compare_name(const void *name, const void *member)
{
    const struct offer *const *one = member;
    return strcmp(name, (*one)->tool->name);
}

static void sort_by_name(struct offers *o)
{
    o->by_name = xcalloc(o->count, sizeof(struct offer *));
    for (size_t i = 0; i < o->count; i++)
        o->by_name[i] = &o->list[i];
    qsort(o->by_name, o->count, sizeof(struct offer *), compare_offers);
}

static const struct offers *offers_of(struct context *cx)
{
    if (cx->offers)
        return cx->offers;
    cx->offers = xcalloc(1, sizeof *cx->offers);
    for (const struct tool_set *const *set = CATALOG.tools; *set; set++)
        offer_set(cx, cx->offers, *set);
    sort_by_name(cx->offers);
    return cx->offers;
}

void tools_fini(struct context *cx)
{
    if (!cx->offers)
        return;
    for (size_t i = 0; i < cx->offers->count; i++)
        json_decref(cx->offers->list[i].definition);
    free(cx->offers->by_name);
    free(cx->offers->list);
    free(cx->offers);
    cx->offers = NULL;
}

struct offer *tools_find(struct context *cx, const char *name)
{
    const struct offers *o = offers_of(cx);
    struct offer **found =
        bsearch(name, o->by_name, o->count, sizeof(struct offer *), compare_name);
    return found ? *found : NULL;
}

// ---- how they are shown

// A model pays for each definition that it is shown. So lengths, patterns, bounds and defaults are
// left out: if an argument is wrong, the error says what is allowed, and the description names a
// default that nobody would assume. OpenAI's strict mode refuses lengths and defaults in a schema.
// A parameter is described once, by the first tool that has it, because models read the whole list.

// Note the description of a parameter in `seen`; return whether it was there already.
static bool is_told(json_t *seen, const char *name, const json_t *description)
{
    if (!description)
        return false;
    char *key auto_free = str_printf("%s: %s", name, json_string_value(description));
    if (json_object_get(seen, key))
        return true;
    json_object_set_new(seen, key, json_true());
    return false;
}

static void drop_guards(json_t *one)
{
    static const char *const GUARDS[] = {"minLength", "maxLength", "pattern",
                                         "minimum",   "maximum",   "maxItems"};
    const char *name;
    json_t *member;
    for (size_t i = 0; i < ARRAY_LEN(GUARDS); i++)
        json_object_del(one, GUARDS[i]);
    if (json_is_false(json_object_get(one, "additionalProperties")))
        json_object_del(one, "additionalProperties");
    if (json_object_get(one, "items"))
        drop_guards(json_object_get(one, "items"));
    json_object_foreach (json_object_get(one, "properties"), name, member) {
        drop_guards(member);
    }
}

static void make_terse(json_t *one, const char *name, json_t *seen)
{
    drop_guards(one);
    if (is_told(seen, name, json_object_get(one, "description")))
        json_object_del(one, "description");
}

static json_t *terse(const json_t *schema, json_t *seen)
{
    json_t *shown = json_deep_copy(schema);
    json_t *properties = json_object_get(shown, "properties");
    const char *name;
    json_t *one;
    if (json_object_size(properties) > 0 &&
        json_is_false(json_object_get(shown, "additionalProperties")))
        json_object_del(shown, "additionalProperties");
    json_object_foreach (properties, name, one) {
        make_terse(one, name, seen);
    }
    return shown;
}

// The output schema is for programs that check results, which most clients also show to the model.
// Names and types of the members are kept, and the type of the items of a list: a looser schema
// takes all results that the whole one takes.
static json_t *terse_output(const json_t *schema)
{
    json_t *members = json_object();
    const char *name;
    json_t *one;
    json_object_foreach (json_object_get(schema, "properties"), name, one) {
        json_t *member = json_pack("{s:O}", "type", json_object_get(one, "type"));
        const json_t *items = json_object_get(json_object_get(one, "items"), "type");
        if (items)
            json_object_set_new(member, "items", json_pack("{s:O}", "type", items));
        json_object_set_new(members, name, member);
    }
    return json_pack("{s:s, s:o}", "type", "object", "properties", members);
}

// Return the hints without those that have the value of an absent one (MCP, server/tools).
static json_t *terse_annotations(const json_t *annotations)
{
    static const struct {
        const char *name;
        bool value;
    } ABSENT[] = {{"readOnlyHint", false},
                  {"destructiveHint", true},
                  {"idempotentHint", false},
                  {"openWorldHint", true}};
    json_t *shown = json_copy((json_t *)(uintptr_t)annotations);
    for (size_t i = 0; i < ARRAY_LEN(ABSENT); i++) {
        const json_t *one = json_object_get(shown, ABSENT[i].name);
        if (one && json_is_true(one) == ABSENT[i].value)
            json_object_del(shown, ABSENT[i].name);
    }
    return shown;
}

// Every result has these, and a model has no use for them.
static void drop_usual(json_t *output, const json_t *input)
{
    json_t *properties = json_object_get(output, "properties");
    json_object_del(properties, "duration_ms");
    if (json_object_get(json_object_get(input, "properties"), "sandbox_id"))
        json_object_del(properties, "sandbox_id");
}

// Remove what OpenAI's strict mode refuses. MiroFlow's own definitions keep their defaults.
static void drop_defaults(json_t *input)
{
    const char *name;
    json_t *one;
    json_object_foreach (json_object_get(input, "properties"), name, one) {
        json_object_del(one, "default");
    }
}

static void make_all_terse(json_t *shown, json_t *seen)
{
    json_object_set_new(shown, "inputSchema", terse(json_object_get(shown, "inputSchema"), seen));
    json_object_set_new(shown, "outputSchema",
                        terse_output(json_object_get(shown, "outputSchema")));
    json_object_set_new(shown, "annotations",
                        terse_annotations(json_object_get(shown, "annotations")));
    drop_usual(json_object_get(shown, "outputSchema"), json_object_get(shown, "inputSchema"));
}

// Replace the description in `one` by its text with these options.
static void tell(struct context *cx, const struct caller *caller, json_t *one)
{
    const char *text = json_string_value(json_object_get(one, "description"));
    char *told auto_free = text && strchr(text, '$') ? tool_text(cx, caller, text) : NULL;
    if (told)
        json_object_set_new(one, "description", json_string(told));
}

static void tell_all(struct context *cx, const struct caller *caller, json_t *shown)
{
    json_t *input = json_deep_copy(json_object_get(shown, "inputSchema"));
    const char *name;
    json_t *one;
    if (!cx->config->allow_mounts.count) // create_sandbox refuses it then
        json_object_del(json_object_get(input, "properties"), "mounts");
    json_object_foreach (json_object_get(input, "properties"), name, one) {
        tell(cx, caller, one);
    }
    json_object_set_new(shown, "inputSchema", input);
    tell(cx, caller, shown);
}

static void add_view(json_t *shown, const char *view)
{
    char *uri auto_free = str_printf(APPS_URI_PREFIX "%s", view);
    json_t *known = json_object_get(shown, "_meta");
    json_t *meta = known ? json_copy(known) : json_object(); // the definition may be kept
    json_object_set_new(meta, "ui", json_pack("{s:s}", "resourceUri", uri));
    json_object_set_new(shown, "_meta", meta);
}

static json_t *described(struct context *cx, const struct caller *caller, const struct offer *offer,
                         const struct era *era, bool has_views, json_t *seen)
{
    // A list needs each definition for a moment only, so it keeps none that is not parsed already.
    json_t *shown = offer->definition ? json_copy(offer->definition)
                                      : parse_definitions(offer->text, offer->len);
    tell_all(cx, caller, shown);
    if (offer->terse)
        make_all_terse(shown, seen);
    if (offer->terse && !config_is_miroflow(cx->config))
        drop_defaults(json_object_get(shown, "inputSchema"));
    json_t *cubby = json_incref(json_object_get(shown, "cubby"));
    json_object_del(shown, "cubby");
    if (!era->annotations)
        json_object_del(shown, "annotations");
    if (!era->structured) {
        json_object_del(shown, "title");
        json_object_del(shown, "_meta");
    }
    if (!era->structured || config_is_miroflow(cx->config) ||
        !caller_wants_structured(caller, cx->config))
        json_object_del(shown, "outputSchema");
    if (!era->icons)
        json_object_del(shown, "icons");
    if (has_views && json_object_get(cubby, "view"))
        add_view(shown, json_string_value(json_object_get(cubby, "view")));
    json_decref(cubby);
    return shown;
}

json_t *tools_list(struct context *cx, const struct caller *caller, const struct era *era,
                   bool has_views)
{
    const struct offers *o = offers_of(cx);
    json_t *list = json_array();
    json_t *seen = json_object();
    for (size_t i = 0; i < o->count; i++)
        json_array_append_new(list, described(cx, caller, &o->list[i], era, has_views, seen));
    json_decref(seen);
    return list;
}

// ---- what may be chosen

static json_t *all_definitions(void)
{
    json_t *all = json_array();
    for (const struct tool_set *const *set = CATALOG.tools; *set; set++) {
        json_t *definitions = parse_definitions((*set)->schemas, (*set)->schemas_len);
        json_array_extend(all, definitions);
        json_decref(definitions);
    }
    return all;
}

static bool exists(const json_t *all, const char *name)
{
    const struct opt_list names = {.items = {name}, .count = 1};
    size_t i;
    const json_t *one;
    json_array_foreach (all, i, one) {
        if (is_named(&names, one))
            return true;
    }
    return false;
}

static void add_choices(struct buf *out, const json_t *all)
{
    json_t *seen = json_object();
    size_t i;
    const json_t *one;
    buf_adds(out, " Toolsets:");
    json_array_foreach (all, i, one) {
        const char *toolset = toolset_of(one);
        if (!toolset || json_object_get(seen, toolset))
            continue;
        buf_printf(out, "%s %s", json_object_size(seen) ? "," : "", toolset);
        json_object_set_new(seen, toolset, json_true());
    }
    json_decref(seen);
    buf_adds(out, ". Tools:");
    json_array_foreach (all, i, one) {
        buf_printf(out, "%s %s", i ? "," : "", name_of(one));
    }
}

static char *complaint_of(const char *option, const struct opt_list *names)
{
    if (names->count == 0)
        return NULL;
    json_t *all = all_definitions();
    struct buf out = BUF_INIT;
    int bad = 0;
    while (bad < names->count && exists(all, names->items[bad]))
        bad++;
    if (bad < names->count) {
        buf_printf(&out, "%s: there is no tool \"%s\".", option, names->items[bad]);
        add_choices(&out, all);
    }
    json_decref(all);
    return bad < names->count ? buf_take(&out) : NULL;
}

char *tools_complaint(const struct config *c)
{
    char *complaint = complaint_of("--tools", &c->tools);
    return complaint ? complaint : complaint_of("--disable-tool", &c->disabled);
}
