// SPDX-License-Identifier: Apache-2.0
// create_sandbox: a new sandbox, which lives as long as it is used; or, with a name, the caller's
// sandbox of that name if it lives.
//
// Steps: 1. check the arguments against the limits of the operator; 2. with a name, look for a
// sandbox that has it; 3. create one; 4. with a name, look again: two calls may have created one
// each, and then the older sandbox stays. A name and what was asked for are in the metadata of the
// sandbox.
#include <string.h>

#include "mcp-server/context/owner.h"
#include "mcp-server/protocol/exchange.h"
#include "mcp-server/text/text.h"
#include "mcp-server/tools/call/tools.h"
#include "mcp-server/tools/mounts.h"
#include "mcp-server/tools/owner/named_spec.h"
#include "mcp-server/tools/owner/quota.h"
#include "mcp-server/tools/owner/snapshot_owner.h"
#include "mcp-server/tools/run/run.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"

static void look_up(struct tool_call *c, client_json_cb cb);

// ---- what is asked for

static const char *template_of(const struct tool_call *c)
{
    const char *asked = tool_call_string(c, "template");
    const char *usual = c->context->config->template;
    return asked ? asked : usual ? usual : "default";
}

static int64_t int_of(const struct tool_call *c, const char *name)
{
    return json_integer_value(json_object_get(c->args, name));
}

static int64_t timeout_of(const struct tool_call *c)
{
    int64_t asked = int_of(c, "timeout_s");
    return asked ? asked : caller_timeout(c->caller, c->context->config);
}

// A host is a name, not an address: a model must not reach a private network by its numbers. It has
// a dot, so that a mode which does not exist ("allow") is not taken for a host.
static bool is_host(const char *host)
{
    const char *dot = strchr(host, '.');
    return dot && dot[1] && strpbrk(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") &&
           !strchr(host, '[') && !strchr(host, '/');
}

// Return the policy of `network`, a new reference; NULL: the usual one, or with `e` an error.
static json_t *policy_of(const struct tool_call *c, struct err *e)
{
    const char *asked = tool_call_string(c, "network");
    if (!asked)
        return NULL;
    if (str_eq(asked, "none") || str_eq(asked, "public"))
        return json_pack("{s:s}", "mode", asked);
    json_t *hosts = json_array();
    char *words auto_free = xstrdup(asked);
    char *rest = words;
    for (char *host = strtok_r(rest, ", ", &rest); host; host = strtok_r(NULL, ", ", &rest)) {
        if (!is_host(host))
            err_set(e, ERR_INVALID,
                    "argument 'network' must be none, public, or host names with a dot such as "
                    "pypi.org,*.github.com, not '%.80s'",
                    host);
        json_array_append_new(hosts, json_string(host));
    }
    return json_pack("{s:s, s:o}", "mode", "allow", "allow", hosts);
}

// ---- 1. the limits of the operator

static int64_t most_cpus(const struct tool_call *c)
{
    return caller_most(c->caller->max_cpus, c->context->config->max_cpus);
}

static int64_t most_memory_mb(const struct tool_call *c)
{
    return caller_most(c->caller->max_memory_mb, c->context->config->max_memory_mb);
}

static int check_most(const struct tool_call *c, const char *name, int64_t most, struct err *e)
{
    if (most == 0 || int_of(c, name) <= most)
        return 0;
    return err_set(e, ERR_INVALID, "argument '%s' must be at most %lld here, not %lld", name,
                   (long long)most, (long long)int_of(c, name));
}

// The operator's policy is the widest one.
static int check_network(const struct tool_call *c, struct err *e)
{
    const char *usual = c->context->config->network;
    const char *asked = tool_call_string(c, "network");
    if (!asked || str_eq(asked, "none") || !usual || str_eq(usual, "public"))
        return 0;
    return err_set(e, ERR_INVALID,
                   "argument 'network' can only be none here, because the operator restricts the "
                   "network of all sandboxes; leave it out to get the operator's policy");
}

static int check_limits(const struct tool_call *c, struct err *e)
{
    int64_t most_s = caller_max_timeout(c->caller, c->context->config);
    if (check_most(c, "timeout_s", most_s, e) < 0 || check_most(c, "cpus", most_cpus(c), e) < 0 ||
        check_most(c, "memory_mb", most_memory_mb(c), e) < 0)
        return -1;
    return check_network(c, e);
}

// ---- the end

// Tell the tier, and what it does not promise, if the backend does.
static void add_tier(json_t *o, const json_t *info)
{
    json_t *tier = json_object_get(info, "tier"), *warning = json_object_get(info, "tierWarning");
    if (json_is_string(tier))
        json_object_set(o, "tier", tier);
    if (json_is_string(warning))
        json_object_set(o, "tier_warning", warning);
}

static void add_mounts(const struct tool_call *c, json_t *o)
{
    struct err ignored = ERR_INIT;
    json_t *mounts = mounts_wanted(c, &ignored);
    char *hint auto_free = mounts_hint(mounts);
    if (*hint)
        json_object_set_new(o, "hint", json_lossy_string(hint, strlen(hint)));
    json_decref(mounts);
}

// info: the backend's description of the sandbox, NULL if it cannot be had.
static void finish(struct tool_call *c, const char *id, const json_t *info)
{
    json_t *o = json_pack("{s:s, s:s, s:I, s:b}", "sandbox_id", id, "template", template_of(c),
                          "timeout_s", (json_int_t)timeout_of(c), "existed", 0);
    if (tool_call_string(c, "name"))
        json_object_set(o, "name", json_object_get(c->args, "name"));
    add_tier(o, info);
    add_mounts(c, o);
    tool_call_finish(c, o);
}

static bool is_paused(const json_t *info)
{
    return str_eq(text_string(info, "state"), "paused");
}

// Finish with a sandbox that has the name. Its time to live is known only if this call has set it.
static void finish_found(struct tool_call *c, const json_t *info)
{
    json_t *spec = named_spec_in(info);
    const char *template = json_string_value(json_object_get(spec, "template"));
    const char *hint =
        is_paused(info)
            ? tool_call_hint(c, "resume_sandbox", "The sandbox is paused: call resume_sandbox")
            : "";
    json_t *o =
        json_pack("{s:s, s:s, s:b, s:O, s:s}", "sandbox_id", text_string(info, "sandboxID"),
                  "template", template ? template : text_string(info, "templateID"), "existed", 1,
                  "name", json_object_get(c->args, "name"), "state", text_string(info, "state"));
    if (int_of(c, "timeout_s") && !is_paused(info))
        json_object_set_new(o, "timeout_s", json_integer(timeout_of(c)));
    if (*hint)
        json_object_set_new(o, "hint", json_string(hint));
    add_tier(o, info);
    json_decref(spec);
    tool_call_finish(c, o);
}

static void fail_template(struct tool_call *c)
{
    const char *asked = tool_call_string(c, "template");
    if (asked && str_starts(asked, "snap-"))
        snapshot_owner_fail(c, asked);
    else if (asked)
        tool_call_fail(c, "template_not_found", "there is no template '%.80s'%s%s%s", asked,
                       tool_call_hint(c, "list_templates", ". list_templates lists the templates"),
                       tool_call_hint(c, "list_sandboxes", ", list_sandboxes the snapshots"),
                       ". Leave template out for the default one");
    else
        tool_call_fail(c, "template_not_found",
                       "the template '%.80s' of this server does not exist. Tell the user that it "
                       "has to be built (cubby template build), or that cubby-mcp needs another "
                       "--template",
                       template_of(c));
}

// Fail if the sandbox of that name differs from what is asked for; return false otherwise.
static bool fail_other(struct tool_call *c, const json_t *info)
{
    const char *what;
    const char *bad = named_spec_other(c, info, &what);
    if (bad)
        tool_call_fail(c, "name_taken",
                       "your sandbox '%s' (%s) still exists, but it has another %s. Leave %s out "
                       "to use it%s, or choose another name",
                       tool_call_string(c, "name"), text_string(info, "sandboxID"), what, bad,
                       tool_call_hint(c, "kill_sandbox", ", end it with kill_sandbox"));
    return bad != NULL;
}

// ---- a sandbox that has the name

static void on_extended(const struct err *e, void *ctx)
{
    struct tool_call *c = ctx;
    json_t *info = c->state;
    c->op = NULL;
    c->state = NULL;
    if (e) {
        tool_call_fail_err(c, "extend the sandbox", e);
    } else {
        tool_call_note_timeout(c, text_string(info, "sandboxID"), timeout_of(c));
        finish_found(c, info);
    }
    json_decref(info);
}

// Use the sandbox if it is what is asked for, with the requested time to live.
static void take(struct tool_call *c, const json_t *info)
{
    const char *id = text_string(info, "sandboxID");
    owner_note(c->context, c->caller, id);
    if (fail_other(c, info))
        return;
    if (!int_of(c, "timeout_s") || is_paused(info)) {
        finish_found(c, info);
        return;
    }
    c->state = json_incref((json_t *)(uintptr_t)info);
    c->op = client_set_timeout(c->context->client, id, timeout_of(c), on_extended, c);
}

// ---- 4. which sandbox has the name

// Over stdio the user may use the sandboxes of tokens, but their names are not the user's.
static bool is_candidate(const struct tool_call *c, const json_t *info)
{
    bool has_owner = json_object_get(json_object_get(info, "metadata"), CALLER_METADATA);
    return owner_is_of(c->context, c->caller, info) && (c->caller->owner || !has_owner);
}

static int64_t started_of(const json_t *info)
{
    int64_t ns = INT64_MAX;
    clock_parse_rfc3339(text_string(info, "startedAt"), &ns);
    return ns;
}

// Return whether `a` keeps the name beside `b`. cubbyd's instants are in the order in which its
// sandboxes can be seen. So of two creates at once, the later one sees the other and gives way.
static bool is_older(const json_t *a, const json_t *b)
{
    int64_t first = started_of(a), second = started_of(b);
    return first != second ? first < second
                           : strcmp(text_string(a, "sandboxID"), text_string(b, "sandboxID")) < 0;
}

static const json_t *oldest(const struct tool_call *c, const json_t *all)
{
    const json_t *found = NULL;
    size_t i;
    json_t *one;
    json_array_foreach (all, i, one) {
        if (is_candidate(c, one) && (!found || is_older(one, found)))
            found = one;
    }
    return found;
}

static void on_extra_killed(const struct err *e, void *ctx)
{
    (void)ctx;
    if (e)
        log_warn("sandbox.extra", "error=%s", e->msg);
}

static void on_looked_again(const json_t *all, const struct err *e, void *ctx)
{
    struct tool_call *c = ctx;
    char *mine auto_free = c->state;
    const json_t *found = e ? NULL : oldest(c, all);
    const char *id = text_string(found, "sandboxID");
    c->op = NULL;
    c->state = NULL;
    if (!*id || str_eq(id, mine)) {
        finish(c, mine, found);
        return;
    }
    client_kill(c->context->client, mine, on_extra_killed, NULL);
    take(c, found);
}

// ---- 3. a new one

// Fail for a size that the backend refuses, under the name that the argument has here.
static void fail_invalid(struct tool_call *c, const struct err *e)
{
    static const char *const NAMES[][2] = {{"cpuCount: ", "cpus"}, {"memoryMB: ", "memory_mb"}};
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++) {
        const char *at = strstr(e->msg, NAMES[i][0]);
        if (at) {
            tool_call_fail(c, "invalid_argument", "argument '%s': %s", NAMES[i][1],
                           at + strlen(NAMES[i][0]));
            return;
        }
    }
    tool_call_fail(c, "invalid_argument", "could not create a sandbox: %s", e->msg);
}

// A sandbox without its mounts is not what the call wants.
static void on_mounted(struct tool_call *c, const json_t *info, const struct err *e)
{
    const char *id = text_string(info, "sandboxID");
    if (e) {
        client_kill(c->context->client, id, on_extra_killed, NULL);
        tool_call_fail_err(c, "mount a directory in the new sandbox", e);
    } else if (tool_call_string(c, "name")) {
        c->state = xstrdup(id);
        look_up(c, on_looked_again);
    } else {
        finish(c, id, info);
    }
}

// The client undoes a cancelled creation, because the caller does not get the id.
static void on_created(const json_t *info, const struct err *e, void *ctx)
{
    struct tool_call *c = ctx;
    const char *id = text_string(info, "sandboxID");
    struct err missing = ERR_INIT;
    c->op = NULL;
    quota_release(c);
    if (e && e->code != ERR_INVALID && e->code != ERR_UNIMPLEMENTED)
        free(steal(&c->note)); // it is about the size only
    if (e && e->code == ERR_NOT_FOUND) {
        fail_template(c);
        return;
    }
    if (e && e->code == ERR_INVALID) {
        fail_invalid(c, e);
        return;
    }
    if (e) {
        tool_call_fail_err(c, "create a sandbox", e);
        return;
    }
    owner_note(c->context, c->caller, id);
    if (int_of(c, "timeout_s"))
        tool_call_note_timeout(c, id, timeout_of(c));
    json_t *mounts = mounts_wanted(c, &missing);
    if (json_array_size(mounts)) {
        mounts_make(c, info, mounts, on_mounted);
        return;
    }
    json_decref(mounts);
    on_mounted(c, info, mounts ? NULL : &missing);
}

static json_t *secrets_of(const struct config *config)
{
    json_t *names = json_array();
    for (int i = 0; i < config->secrets.count; i++)
        json_array_append_new(names, json_string(config->secrets.items[i]));
    return names;
}

// Return the metadata of the caller's sandboxes with the call's name; new reference, or NULL.
static json_t *metadata_of(const struct tool_call *c)
{
    json_t *metadata = owner_metadata(c->caller);
    const char *name = tool_call_string(c, "name");
    if (name && !metadata)
        metadata = json_object();
    if (name)
        json_object_set_new(metadata, OWNER_NAME_KEY, json_string(name));
    return metadata;
}

static void create(struct tool_call *c)
{
    const struct config *config = c->context->config;
    struct err e = ERR_INIT;
    json_t *metadata = metadata_of(c);
    json_t *secrets = secrets_of(config);
    json_t *envs = run_envs(c);
    json_t *network = policy_of(c, &e);
    json_t *spec = named_spec_new(c, template_of(c));
    char *spec_text auto_free = json_to_string(spec);
    if (tool_call_string(c, "name"))
        json_object_set_new(metadata, NAMED_SPEC_KEY, json_string(spec_text));
    struct sandbox_opts opts = {
        .template = template_of(c),
        .timeout_s = timeout_of(c),
        .metadata = metadata,
        .envs = envs,
        .secrets = secrets,
        .network = network,
        .no_wider = !str_eq(template_of(c), "default"), // which may be a snapshot
        .sliding = true,
        .cpus = int_of(c, "cpus"),
        .memory_mb = int_of(c, "memory_mb"),
        .tier = config->tier,
    };
    c->op = client_create(c->context->client, &opts, on_created, c);
    json_decref(metadata);
    json_decref(secrets);
    json_decref(envs);
    json_decref(network);
    json_decref(spec);
}

// ---- 1. the size of the template, to which the operator's limits apply, too

// Return the largest value that the size with this name has in the template's builds.
static int64_t size_in(const json_t *template, const char *name)
{
    int64_t most = 0;
    size_t i;
    json_t *build;
    json_array_foreach (json_object_get(template, "builds"), i, build) {
        int64_t size = text_int(build, name);
        most = size > most ? size : most;
    }
    return most;
}

// Ask for a smaller size where the template's is above the limit, or not known (0). A backend or a
// snapshot that cannot have another size than its own then refuses, and the note says why it was
// asked.
static void cap_size(struct tool_call *c, const char *name, int64_t size, int64_t most)
{
    if (most == 0 || (size > 0 && size <= most) || json_object_get(c->args, name))
        return;
    json_object_set_new(c->args, name, json_integer(most));
    free(c->note);
    if (size > 0)
        c->note = str_printf(". Template '%.80s' has %s %lld, and this server allows at most %lld, "
                             "so choose another template",
                             template_of(c), name, (long long)size, (long long)most);
    else
        c->note = str_printf(". The backend does not tell the %s of template '%.80s', so cubby-mcp "
                             "asked for the maximum of this server, %lld",
                             name, template_of(c), (long long)most);
}

static void on_template(const json_t *info, const struct err *e, void *ctx)
{
    struct tool_call *c = ctx;
    c->op = NULL;
    if (e && e->code == ERR_NOT_FOUND) {
        fail_template(c);
    } else if (e) {
        tool_call_fail_err(c, "look up the size of the template", e);
    } else if (c->cancelled) {
        tool_call_fail(c, "cancelled", "the call was cancelled");
    } else {
        cap_size(c, "cpus", size_in(info, "cpuCount"), most_cpus(c));
        cap_size(c, "memory_mb", size_in(info, "memoryMB"), most_memory_mb(c));
        quota_take(c, 1, create);
    }
}

static void check_size(struct tool_call *c)
{
    if ((most_cpus(c) && !int_of(c, "cpus")) || (most_memory_mb(c) && !int_of(c, "memory_mb")))
        c->op = client_template(c->context->client, template_of(c), on_template, c);
    else
        quota_take(c, 1, create);
}

static void check_template(struct tool_call *c)
{
    const char *asked = tool_call_string(c, "template");
    if (asked && !str_eq(asked, c->context->config->template))
        snapshot_owner_check(c, asked, true, check_size);
    else
        check_size(c);
}

// ---- 2. one that has the name

static void on_looked(const json_t *all, const struct err *e, void *ctx)
{
    struct tool_call *c = ctx;
    const json_t *found = e ? NULL : oldest(c, all);
    c->op = NULL;
    if (e) {
        tool_call_fail_err(c, "look for the sandbox", e);
    } else if (c->cancelled) {
        tool_call_fail(c, "cancelled", "the call was cancelled");
    } else if (!found) {
        check_template(c);
    } else {
        take(c, found);
    }
}

static void look_up(struct tool_call *c, client_json_cb cb)
{
    json_t *wanted = metadata_of(c);
    c->op = client_list(c->context->client, wanted, cb, c);
    json_decref(wanted);
}

static void start(struct tool_call *c)
{
    struct err e = ERR_INIT;
    json_decref(policy_of(c, &e));
    json_decref(mounts_wanted(c, &e));
    if (err_is(&e) || check_limits(c, &e) < 0) {
        tool_call_fail(c, "invalid_argument", "%s", e.msg);
        return;
    }
    if (!run_envs_fit(c))
        return;
    const struct client *client = tool_call_client(c, 0);
    if (!client)
        return;
    if (!client_is_there(client))
        exchange_log(c->exchange, "info", "cubby",
                     json_string("The sandbox daemon does not run yet. It is being started, which "
                                 "takes a moment"));
    if (tool_call_string(c, "name"))
        look_up(c, on_looked);
    else
        check_template(c);
}

// Return the text in the form that known clients parse: one line with one ": ", and the id last.
static char *text_of(const json_t *o)
{
    bool existed = json_is_true(json_object_get(o, "existed"));
    const char *hint = text_string(o, "hint");
    return str_printf("Sandbox %s with sandbox_id: %s%s%s", existed ? "found" : "created",
                      text_string(o, "sandbox_id"), *hint ? "\n" : "", hint);
}

const struct tool tool_create_sandbox = {.name = "create_sandbox", .start = start, .text = text_of};
