// SPDX-License-Identifier: Apache-2.0
// Sleep of sandboxes without use.
#include "sandbox-backend/daemon/sleep/pause.h"

#include <string.h>
#include <sys/param.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/daemon/sandbox/guest.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/log/log.h"

#define ANSWER_MS 10000
#define RETRY_MS  30000 // after a failed hibernation; doubled for each further one
#define RETRY_MAX 7     // doublings, to about an hour

// envd keeps its commands and all their descendants below this control group.
#define COMMANDS "/files?username=root&path=/sys/fs/cgroup/commands/cgroup.events"
#define LIST     "/process.Process/List"

static void on_commands(int status, const char *text, const struct err *e, void *ctx);
static void on_list(int status, const char *text, const struct err *e, void *ctx);

static int64_t limit_of(const struct sandbox *sb)
{
    const struct idle_policy *policy = &sb->idle.policy;
    return policy->freeze_ms ? policy->freeze_ms : policy->hibernate_ms;
}

static int64_t window_of(const struct sandbox *sb)
{
    return MIN(IDLE_WINDOW_MS, limit_of(sb) / 2);
}

// Return true if a sample was taken since the last use. An older one says nothing.
static bool has_sample(const struct sandbox *sb)
{
    return sb->idle.sampled_ms > sb->used_ms;
}

static int64_t next_sleep_ms(const struct sandbox *sb)
{
    if (limit_of(sb) == 0 || sb->idle.call || sb->op)
        return INT64_MAX;
    return has_sample(sb) ? sb->idle.sampled_ms + window_of(sb)
                          : sb->used_ms + limit_of(sb) - window_of(sb);
}

int64_t idle_next_ms(const struct sandbox *sb)
{
    if (sb->state == SANDBOX_RUNNING)
        return next_sleep_ms(sb);
    if (sb->state != SANDBOX_PAUSED || sb->op || !sb->machine || !sb->idle.policy.hibernate_ms)
        return INT64_MAX;
    return MAX(sb->used_ms + sb->idle.policy.hibernate_ms, sb->idle.again_ms);
}

int64_t idle_postpone(struct sandbox *sb)
{
    int64_t wait_ms = (int64_t)RETRY_MS << MIN(sb->idle.failures, RETRY_MAX);
    sb->idle.failures++;
    sb->idle.again_ms = clock_mono_ms() + wait_ms;
    return wait_ms;
}

// Count this moment as use, as if a request had come.
static void in_use(struct sandbox *sb, const char *by)
{
    log_debug("sandbox.idle", "id=%s used=%s", sb->id, by);
    sb->used_ms = clock_mono_ms();
    store_plan(sb->store);
}

// Return true if the machine was nearly idle since the last sample. Store `usage` as the last one.
static bool is_quiet(struct sandbox *sb, const struct machine_usage *usage, int64_t now_ms)
{
    struct idle *idle = &sb->idle;
    int64_t bytes = usage->net_in_bytes + usage->net_out_bytes;
    int64_t may_ns = (now_ms - idle->sampled_ms) * 1000000 / 100 * IDLE_CPU_PERCENT;
    bool quiet =
        usage->cpu_ns - idle->cpu_ns <= may_ns && bytes - idle->net_bytes <= IDLE_NET_BYTES;
    log_debug("sandbox.idle", "id=%s ms=%lld cpu_us=%lld net=%lld", sb->id,
              (long long)(now_ms - idle->sampled_ms),
              (long long)((usage->cpu_ns - idle->cpu_ns) / 1000),
              (long long)(bytes - idle->net_bytes));
    idle->sampled_ms = now_ms;
    idle->cpu_ns = usage->cpu_ns;
    idle->net_bytes = bytes;
    return quiet;
}

static void look_inside(struct sandbox *sb, int64_t now_ms)
{
    sandbox_touch_if_used(sb);
    if (idle_next_ms(sb) > now_ms)
        return;
    struct machine_usage usage = {0};
    struct err e = ERR_INIT;
    if (machine_usage(sb->machine, &usage, &e) < 0) {
        log_debug("sandbox.idle", "id=%s error=\"%s\"", sb->id, e.msg);
        in_use(sb, "unknown"); // so that the next sample is not due at once
        return;
    }
    bool first = !has_sample(sb);
    bool quiet = is_quiet(sb, &usage, now_ms);
    if (!first && !quiet)
        in_use(sb, "machine");
    if (first || !quiet)
        return;
    sb->idle.asked_ms = now_ms;
    sb->idle.call = guest_call_start(sb, "GET", COMMANDS, NULL, ANSWER_MS, on_commands, sb);
}

void idle_look(struct sandbox *sb, int64_t now_ms)
{
    if (idle_next_ms(sb) > now_ms)
        return;
    if (sb->state == SANDBOX_RUNNING)
        look_inside(sb, now_ms);
    else if (sb->stream_count) // a paused sandbox has only passive streams
        sb->idle.again_ms = now_ms + sb->idle.policy.hibernate_ms;
    else
        pause_deepen(sb);
}

// ---- commands in the guest, as envd reports them
static void sleep_unless_used(struct sandbox *sb)
{
    if (sb->used_ms >= sb->idle.asked_ms || sb->stream_count > sb->passive_count)
        in_use(sb, "request");
    else if (sb->state == SANDBOX_RUNNING && operation_ask(sb, OPERATION_PAUSE) == OPERATION_BEGIN)
        pause_sleep(sb);
    else
        in_use(sb, "operation");
}

static void on_commands(int status, const char *text, const struct err *e, void *ctx)
{
    struct sandbox *sb = ctx;
    sb->idle.call = NULL;
    if (e)
        in_use(sb, "silent envd");
    else if (status == 200 && strstr(text, "populated 0"))
        sleep_unless_used(sb);
    else if (status == 200 && strstr(text, "populated 1"))
        in_use(sb, "command");
    else // no control groups: envd knows only its direct children
        sb->idle.call = guest_call_start(sb, "POST", LIST, "{}", ANSWER_MS, on_list, sb);
}

static void on_list(int status, const char *text, const struct err *e, void *ctx)
{
    struct sandbox *sb = ctx;
    struct err bad = ERR_INIT;
    sb->idle.call = NULL;
    json_t *answer = !e && status == 200 ? json_parse(text, strlen(text), &bad) : NULL;
    bool runs = json_array_size(json_object_get(answer, "processes")) > 0;
    if (!json_is_object(answer))
        in_use(sb, "silent envd");
    else if (runs)
        in_use(sb, "command");
    else
        sleep_unless_used(sb);
    json_decref(answer);
}
