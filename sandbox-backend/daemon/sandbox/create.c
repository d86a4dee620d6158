// SPDX-License-Identifier: Apache-2.0
// Creating a sandbox for a caller, from the pool or cold.
//
//  1. Check the owner's quota (admit.h). If it is used up, refuse at once.
//  2. For a template at its own size, without secrets, take a pool member, if the limits allow one
//     more sandbox (admission_may_hand_out). The member is ready or still being built (pool.h,
//     take_pooled). The hand-out does the rest.
//  3. Else wait until the host has room for a new sandbox (admission.h).
//  4. Bring up its machine (bringup.h).
//  5. Write the record, so that the next daemon finds the sandbox. Set the state RUNNING and call
//     the caller back.
//
// A failure, or a caller that gives up, ends the sandbox (ending.h) at any step. The caller is then
// called back after everything is removed (on_gone).
#include "sandbox-backend/daemon/sandbox/create.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fault.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/sandbox/admit.h"
#include "sandbox-backend/daemon/sandbox/bringup.h"
#include "sandbox-backend/daemon/sandbox/ending.h"
#include "sandbox-backend/daemon/sandbox/lifecycle.h"
#include "sandbox-backend/daemon/sandbox/record.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/log/log.h"

struct creation {
    struct operation op;
    struct sandbox *sb; // borrowed
    sandbox_cb cb;
    void *ctx;
    struct bringup_spec up; // owned, until step 4
    int64_t start_ms;
};

static struct sandbox *start_cold(struct store *store, const struct create_spec *spec,
                                  sandbox_cb cb, void *ctx);
static void on_admitted(const struct err *e, void *ctx);
static void bring_up(struct creation *c);
static void on_up(struct sandbox *sb, int64_t ready_ms, const struct err *e, void *ctx);
static void on_gone(struct operation *op);

static void add_value(json_t *values, const char *text)
{
    char name[24];
    snprintf(name, sizeof(name), "%zu", json_object_size(values));
    json_object_set_new(values, name, json_string(text));
}

// jansson writes \u00E4, and Python \u00e4.
static void lower_escapes(char *json)
{
    for (char *c = json; *c; c++)
        if (*c == '\\' && *++c == 'u')
            for (int i = 0; i < 4 && c[1]; i++, c++)
                c[1] = (char)tolower((unsigned char)c[1]);
}

// Add the text as it is, and as JSON in an argument of a shell, where an apostrophe interrupts it.
static void add_forms(json_t *values, const json_t *string)
{
    const size_t FORMS[] = {JSON_ENCODE_ANY, JSON_ENCODE_ANY | JSON_ENSURE_ASCII};
    const char *text = json_string_value(string);
    add_value(values, text);
    for (size_t i = 0; i < ARRAY_LEN(FORMS); i++) {
        char *form auto_free = json_dumps(string, FORMS[i]);
        size_t len = form ? strlen(form) : 0;
        if (len < 2)
            continue;
        form[len - 1] = '\0';
        lower_escapes(form);
        char *rest = form + 1;
        if (!strchr(text, '\'') && str_eq(rest, text))
            continue;
        for (char *piece; (piece = strsep(&rest, "'"));)
            add_value(values, piece);
    }
}

// Collect the settings of MCP servers, such as keys: the SDK sends them again, in a command. Lists
// of paths stay out, because they are in every line.
static void collect_settings(json_t *values, json_t *value, bool in_list)
{
    const char *text = json_string_value(value), *name;
    json_t *member;
    size_t i;
    if (text && !(in_list && *text == '/'))
        add_forms(values, value);
    json_object_foreach (value, name, member)
        collect_settings(values, member, false);
    json_array_foreach (value, i, member)
        collect_settings(values, member, true);
}

static void hide_settings(const struct call_place *place, json_t *mcp)
{
    json_t *values = json_object();
    collect_settings(values, mcp, false);
    call_log_hide_values(place, values);
    json_decref(values);
}

// The call log must not hold the sandbox's tokens, and no value of its environment.
static void hide_from_calls(struct sandbox *sb, const struct create_spec *spec)
{
    const struct call_place place = sandbox_calls(sb);
    sandbox_hide_tokens(sb);
    call_log_hide_values(&place, spec->env);
    masks_from_json(&sb->calls->own, spec->template.masks);
    hide_settings(&place, spec->mcp);
}

void create_identify(struct sandbox *sb, const struct create_spec *spec)
{
    sb->token = spec->secure ? random_hex(32) : NULL;
    sb->traffic_token = spec->traffic_needs_token ? random_hex(32) : NULL;
    sb->owner = spec->owner ? xstrdup(spec->owner) : NULL;
    sb->mask_request_host = spec->mask_request_host ? xstrdup(spec->mask_request_host) : NULL;
    sb->secrets = json_incref(spec->secrets);
    // They were made by this program.
    sb->store->hooks->mounts_from_json(sb, spec->mounts ? spec->mounts : spec->template.mounts,
                                       NULL);
    sb->auto_pause = spec->auto_pause;
    sb->auto_pause_disk = spec->auto_pause_disk;
    sb->auto_resume = spec->auto_resume;
    net_policy_fini(&sb->policy); // an adopted pool member has the policy of its record
    net_policy_copy(&sb->policy, &spec->policy);
    sb->sliding = spec->sliding;
    sb->idle.policy = spec->idle;
    sb->timeout_ms = sb->first_timeout_ms = spec->timeout_s * 1000;
    if (spec->metadata)
        json_object_update(sb->metadata, spec->metadata);
    sb->parent = spec->parent ? xstrdup(spec->parent) : NULL;
    hide_from_calls(sb, spec);
}

void create_spec_fini(struct create_spec *spec)
{
    templates_fini(&spec->template);
    net_policy_fini(&spec->policy);
    json_decref(spec->secrets);
    json_decref(spec->mounts);
}

// ---- 1 and 2. quota and pool
int create_start(struct store *store, const struct create_spec *spec, sandbox_cb cb, void *ctx,
                 struct sandbox **out, struct err *e)
{
    if (driver_check_disk(spec->template.facts.driver, store->dir, e) < 0 ||
        admit_check_create(store, spec, e) < 0)
        return -1;
    *out = admission_may_hand_out(&store->admission)
               ? store->hooks->take_pooled(store, spec, cb, ctx)
               : NULL;
    if (!*out)
        *out = start_cold(store, spec, cb, ctx);
    return 0;
}

// Return the variables of both; those of the request override the snapshot's. New reference.
static json_t *environment(json_t *snapshot, json_t *request)
{
    if (!snapshot)
        return json_incref(request);
    json_t *all = json_copy(snapshot);
    if (request)
        json_object_update(all, request);
    return all;
}

// ---- 3. room on the host
// A machine of another size cannot always start from the one that the template saved. A disk in
// memory is a part of what was saved.
static bool must_boot(const struct known_template *t)
{
    const struct driver *driver = t->facts.driver;
    bool other = t->size.cpus || t->size.memory_mb;
    if (t->image)
        return false;
    return (other && !(driver->can & DRIVER_RESIZES)) ||
           (t->size.disk_mb && driver->disk_in_memory && driver->can & DRIVER_SAVES);
}

static struct sandbox *start_cold(struct store *store, const struct create_spec *spec,
                                  sandbox_cb cb, void *ctx)
{
    const struct known_template *t = &spec->template;
    struct sandbox *sb = sandbox_new(store, NULL);
    struct creation *c = xcalloc(1, sizeof *c);
    struct err e = ERR_INIT;
    *c = (struct creation){
        .op = {.on_gone = on_gone}, .sb = sb, .cb = cb, .ctx = ctx, .start_ms = clock_mono_ms()};
    c->up = (struct bringup_spec){.template_dir = xstrdup(t->dir),
                                  .image = t->image ? xstrdup(t->image) : NULL,
                                  .what = t->image && !t->disk_env ? BRINGUP_INIT_IMAGE
                                                                   : BRINGUP_INIT_ALL,
                                  .token = t->token ? xstrdup(t->token) : NULL,
                                  .env = environment(t->disk_env, spec->env)};
    sb->template = xstrdup(t->name);
    sb->snapshot = t->snapshot ? xstrdup(t->snapshot) : NULL;
    sb->build = t->build ? xstrdup(t->build) : NULL;
    sb->facts = t->facts;
    sb->size = t->size;
    sb->booted = must_boot(t);
    create_identify(sb, spec);
    operation_begin(sb, &c->op, OPERATION_CREATE);
    enum admission_answer answer = admit_enter(sb, on_admitted, c, &e);
    if (answer == ADMISSION_NOW)
        bring_up(c);
    else if (answer == ADMISSION_REFUSED)
        operation_fail(c->sb, NULL, &e);
    return sb;
}

static void on_admitted(const struct err *e, void *ctx)
{
    struct creation *c = ctx;
    if (e)
        operation_fail(c->sb, NULL, e);
    else
        bring_up(c);
}

// ---- 4. the machine
static void bring_up(struct creation *c)
{
    struct err e = ERR_INIT;
    if (bringup_start(c->sb, &c->up, on_up, c, &e) < 0)
        operation_fail(c->sb, NULL, &e);
}

static void creation_free(struct creation *c)
{
    bringup_spec_fini(&c->up);
    free(c);
}

static void report(const struct creation *c, int64_t ready_ms)
{
    struct sandbox *sb = c->sb;
    int64_t now = clock_mono_ms();
    log_info("sandbox.created", "id=%s template=%s ms=%lld machine_ms=%lld init_ms=%lld cold=%d",
             sb->id, sb->template, (long long)(now - c->start_ms),
             (long long)(ready_ms - c->start_ms), (long long)(now - ready_ms), sb->booted);
    journal_add(&sb->journal, JOURNAL_INFO, "created from template %s, in %lld ms%s", sb->template,
                (long long)(now - c->start_ms),
                sb->booted ? " (booted, because its size differs from its template's)" : "");
}

// ---- 5. the record
static void on_up(struct sandbox *sb, int64_t ready_ms, const struct err *e, void *ctx)
{
    struct creation *c = ctx;
    struct err unwritten = ERR_INIT;
    if (e) {
        operation_fail(sb, NULL, e);
        return;
    }
    FAULT("create.1");
    sandbox_set_started(sb);
    sandbox_set_end(sb, sb->timeout_ms);
    if (record_write(sb, &unwritten) < 0) {
        operation_fail(sb, NULL, &unwritten);
        return;
    }
    FAULT("create.2");
    sb->forget = false;
    sandbox_set_state(sb, SANDBOX_RUNNING);
    operation_end(sb, &c->op);
    sb->store->hooks->poke_pool(sb->store);
    report(c, ready_ms);
    lifecycle_tell(sb, EVENT_CREATED, NULL);
    sandbox_cb cb = c->cb;
    void *cb_ctx = c->ctx;
    creation_free(c);
    cb(sb, NULL, cb_ctx);
}

// ---- failure
void create_abandon(struct sandbox *sb, const char *why)
{
    char *detail auto_free = str_printf("the sandbox was not created: %s", why);
    if (sb->state == SANDBOX_CREATING)
        ending_start(sb, ENDED_DIED, detail);
}

static void on_gone(struct operation *op)
{
    struct creation *c = container_of(op, struct creation, op);
    log_warn("sandbox.failed", "error=\"%s\" ms=%lld", op->err.msg,
             (long long)(clock_mono_ms() - c->start_ms));
    c->cb(NULL, &op->err, c->ctx);
    creation_free(c);
}
