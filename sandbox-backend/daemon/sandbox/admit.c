// SPDX-License-Identifier: Apache-2.0
// Room and usage of sandboxes: this file gives limits/ the figures to decide with.
#include "sandbox-backend/daemon/sandbox/admit.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/net_stats.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/calls/call_message.h"
#include "sandbox-backend/daemon/http/api_keys.h"
#include "sandbox-backend/daemon/sandbox/create.h"
#include "sandbox-backend/daemon/sandbox/guest.h"
#include "sandbox-backend/daemon/sandbox/record.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/log/log.h"

#define MB               ((int64_t)1 << 20)
#define ANSWER_MS        5000 // for envd's metrics
#define DRAINING_RETRY_S 5
#define REACHED_EVERY_MS 10000
#define CONTACT_LINE_MS  7500 // a line with a host for each such time,
#define CONTACT_LINES    256  // and so many at once; of refusals, and of hosts that were reached

// ---- host usage
const struct host_usage *usage_of(struct sandbox *sb)
{
    host_usage_follow(&sb->usage, sb->machine, sb->state == SANDBOX_POOLED);
    if (sandbox_is_hibernated(sb) && !sb->usage.at_ms) { // an image does not change
        char *image auto_free = sandbox_image_dir(sb);
        sb->usage.last.disk_bytes = dir_disk_bytes(image);
        sb->usage.at_ms = clock_mono_ms();
    }
    return &sb->usage;
}

static bool measure_next(void *ctx, int64_t older_ms)
{
    const struct store *store = ctx;
    for (struct sandbox *sb = store_first(store); sb; sb = store_next(sb)) {
        if (usage_of(sb)->at_ms >= older_ms || !sb->machine || sb->state >= SANDBOX_KILLING)
            continue;
        host_usage_measure(&sb->usage, sb->machine, sb->id);
        usage_note_network(sb, USAGE_NOTE_LOOK);
        return true;
    }
    return false;
}

// ---- guest usage
static void on_answer(int status, const char *text, const struct err *e, void *ctx)
{
    struct sandbox *sb = ctx;
    struct guest_usage_sample sample = {.at_ns = clock_wall_ns()};
    struct err why = ERR_INIT;
    sb->guest_usage_call = NULL;
    if (!e && status != 200)
        err_set(&why, ERR_INTERNAL, "envd answered /metrics with HTTP status %d", status);
    if (!e && !err_is(&why) && guest_usage_parse(text, strlen(text), &sample, &why) == 0) {
        // A guest that is a process sees the host's processors, and uses as many as it was given.
        sample.cpus = sb->facts.cpus > 0 ? sb->facts.cpus : sample.cpus;
        guest_usage_add(&sb->guest_usage, &sample);
    } else
        log_warn("sandbox.metrics", "id=%s error=\"%s\"", sb->id, e ? e->msg : why.msg);
    guest_usage_tell(&sb->guest_usage);
}

void usage_ask_guest(struct sandbox *sb, guest_usage_cb cb, void *ctx)
{
    guest_usage_wait(&sb->guest_usage, sb->store->loop, cb, ctx);
    if (sb->guest_usage_call)
        return;
    if (sb->state != SANDBOX_RUNNING || guest_usage_is_fresh(&sb->guest_usage)) {
        guest_usage_tell(&sb->guest_usage);
        return;
    }
    sb->guest_usage.asked_ms = clock_mono_ms();
    sb->guest_usage_call = guest_call_start(sb, "GET", "/metrics", NULL, ANSWER_MS, on_answer, sb);
}

void usage_stop_asking(struct sandbox *sb)
{
    if (sb->guest_usage_call)
        guest_call_cancel(steal(&sb->guest_usage_call));
    if (sb->idle.call)
        guest_call_cancel(steal(&sb->idle.call));
    guest_usage_tell(&sb->guest_usage);
}

// ---- refusals, and the hosts that were reached
// Append, for example, "tcp to 10.0.0.1 api.example.com port 443". Unknown parts are left out.
static void add_target(struct buf *out, const struct net_stats_contact *r)
{
    char address[INET_ADDRSTRLEN];
    bool is_placed = r->address || r->name[0];
    buf_adds(out, r->proto || is_placed ? net_stats_proto(r->proto) : "a frame");
    if (is_placed)
        buf_printf(out, " to %s%s%.80s", net_stats_address(r, address),
                   r->address && r->name[0] ? " " : "", r->name);
    if (r->port)
        buf_printf(out, " port %d", r->port);
}

// A pool member that nobody has claimed, and a sandbox that no caller knows, have no call log.
// `others`: connections since the last lines, if some of their hosts have no line; else 0.
static void record_contact(const struct sandbox *sb, const char *kind,
                           const struct net_stats_contact *r, uint64_t others)
{
    char address[INET_ADDRSTRLEN];
    if (sb->unclaimed || sb->forget)
        return;
    const struct call_place place = sandbox_calls(sb);
    json_t *line = json_pack("{s:s, s:s, s:I}", "kind", kind, "protocol", net_stats_proto(r->proto),
                             "count", (json_int_t)r->count);
    if (str_eq(kind, "refused"))
        json_object_set_new(line, "why", json_string(r->why));
    if (others) {
        json_object_set_new(line, "others", json_true());
        json_object_set_new(line, "connections", json_integer((json_int_t)others));
    }
    if (r->address)
        json_object_set_new(line, "address", json_string(net_stats_address(r, address)));
    if (r->name[0]) // the guest chose it
        call_set_text(&place, line, "name", r->name, CALL_PATH_BYTES);
    if (r->port)
        json_object_set_new(line, "port", json_integer(r->port));
    call_log_add(&place, line);
}

// Return how many of a list's first elements are newer than a number. The newest are first.
static size_t newer(const struct net_stats_contact *list, size_t most, uint64_t number)
{
    size_t count = 0;
    while (count < most && list[count].seq > number)
        count++;
    return count;
}

static void journal_refused(struct sandbox *sb, const struct net_stats *s, uint64_t *noted)
{
    if (s->refused < *noted) // a new machine began to count at 0
        *noted = 0;
    for (size_t i = newer(s->refusals, NET_STATS_REFUSALS, *noted); i-- > 0;) {
        const struct net_stats_contact *r = &s->refusals[i];
        struct buf target auto_buf = BUF_INIT;
        add_target(&target, r);
        journal_add(&sb->journal, JOURNAL_WARN, "network: refused %s: %s (%lld)", buf_str(&target),
                    r->why, (long long)r->count);
    }
    *noted = MAX(*noted, s->refusals[0].seq);
}

// Return whether `lines` more may be written now, and count them. `is_last`: they may in any case.
static bool pay_lines(int64_t *paid_ms, int64_t lines, bool is_last)
{
    int64_t now = clock_mono_ms();
    int64_t until = MAX(now, *paid_ms) + lines * CONTACT_LINE_MS;
    bool may = is_last || until - now <= (int64_t)CONTACT_LINES * CONTACT_LINE_MS;
    if (may)
        *paid_ms = until;
    return may;
}

// The figures of one kind of contact in the call log.
struct noting {
    const char *kind;
    const struct net_stats_contact *list;
    size_t most;
    uint64_t total;
    uint64_t *noted;
    int64_t *paid_ms;
};

// Write a line for each contact that came since the last lines. Return whether there are any. An
// element that a writer is just writing is missing from the list. It has the highest number, so it
// is noted at the next time.
static bool note_contacts(const struct sandbox *sb, const struct noting *n, bool is_last)
{
    if (n->total < *n->noted)
        *n->noted = 0;
    size_t count = newer(n->list, n->most, *n->noted);
    if (count == 0 || !pay_lines(n->paid_ms, (int64_t)count, is_last))
        return false;
    uint64_t others = count == n->most ? n->total - *n->noted : 0;
    for (size_t i = count; i-- > 0;)
        record_contact(sb, n->kind, &n->list[i], i == 0 ? others : 0);
    *n->noted = n->list[0].seq;
    return true;
}

static void note_refused(struct sandbox *sb, const struct net_stats *s, enum machine_net which,
                         bool is_last)
{
    const struct noting n = {.kind = "refused",
                             .list = s->refusals,
                             .most = NET_STATS_REFUSALS,
                             .total = s->refused,
                             .noted = &sb->noted.refused[which],
                             .paid_ms = &sb->refused_paid_ms};
    journal_refused(sb, s, &sb->noted.journaled[which]);
    note_contacts(sb, &n, is_last);
}

static void note_reached(struct sandbox *sb, const struct net_stats *s, bool is_last)
{
    const struct noting n = {.kind = "allowed",
                             .list = s->reached,
                             .most = NET_STATS_ALLOWED,
                             .total = s->allowed,
                             .noted = &sb->noted.reached,
                             .paid_ms = &sb->reached_paid_ms};
    if (note_contacts(sb, &n, is_last))
        sb->reached_ms = clock_mono_ms();
}

// Keep the numbers for the next daemon, if the record of the sandbox is as the sandbox is.
static void keep_noted(struct sandbox *sb)
{
    bool is_settled = sb->state == SANDBOX_RUNNING || sb->state == SANDBOX_PAUSED;
    if (is_settled && !sb->op && !sb->moving)
        record_write_or_log(sb);
}

void usage_note_network(struct sandbox *sb, enum usage_note when)
{
    struct net_stats *s auto_free = xcalloc(1, sizeof *s);
    const struct net_noted before = sb->noted;
    bool is_time = when != USAGE_NOTE_LOOK || !sb->reached_ms ||
                   clock_mono_ms() - sb->reached_ms >= REACHED_EVERY_MS;
    for (enum machine_net which = 0; which < MACHINE_NETS; which++) {
        if (!sb->machine || machine_network(sb->machine, which, s, NULL) < 0)
            continue;
        note_refused(sb, s, which, when == USAGE_NOTE_LAST);
        if (which == MACHINE_NET_POLICY && is_time)
            note_reached(sb, s, when == USAGE_NOTE_LAST);
    }
    if (before.reached != sb->noted.reached ||
        memcmp(before.refused, sb->noted.refused, sizeof before.refused) != 0)
        keep_noted(sb);
}

// ---- the host's room
static struct admission_load load_of(struct sandbox *sb)
{
    const struct host_usage *u = usage_of(sb);
    bool starts = sb->state == SANDBOX_CREATING || sb->state == SANDBOX_RESUMING;
    return (struct admission_load){
        .promised_bytes = driver_promise_mb(&sb->facts) * MB,
        .used_bytes = u->last.memory_bytes,
        .is_pooled = sb->unclaimed,
        .has_machine = sb->machine || starts,
        .grows = starts || sb->state == SANDBOX_RUNNING,
        .is_young = !sb->machine || clock_mono_ms() - u->since_ms < ADMISSION_YOUNG_MS,
        .is_measured = sb->state == SANDBOX_RUNNING && u->at_ms,
    };
}

static void each_load(void *ctx, const void *except, admission_visit visit, void *arg)
{
    const struct store *store = ctx;
    for (struct sandbox *sb = store_first(store); sb; sb = store_next(sb)) {
        if (sb == except || sb->ticket || sb->state >= SANDBOX_KILLING)
            continue;
        struct admission_load load = load_of(sb);
        visit(&load, arg);
    }
}

static void give_up(void *ctx)
{
    struct store *store = ctx;
    for (const struct sandbox *sb = store_first(store); sb; sb = store_next(sb))
        if (sb->state == SANDBOX_KILLING)
            return;
    store->hooks->give_up_pooled(store);
}

void admit_open(struct store *store)
{
    const struct admission_source source = {.each = each_load, .give_up = give_up, .ctx = store};
    host_usage_init(&store->sampler, store->loop, measure_next, store);
    admission_init(&store->admission, store->loop, &store->limits.admission, &source,
                   &store->sampler);
}

enum admission_answer admit_enter(struct sandbox *sb, admission_cb cb, void *ctx, struct err *e)
{
    const struct admission_want want = {.sandbox = sb,
                                        .id = sb->id,
                                        .promised_bytes = driver_promise_mb(&sb->facts) * MB,
                                        .is_new = sb->state == SANDBOX_CREATING,
                                        .ticket = &sb->ticket};
    return admission_enter(&sb->store->admission, &want, cb, ctx, e);
}

// ---- the owner's quota
struct quota admit_quota(const struct store *store, const char *owner)
{
    return owner && store->api_keys ? api_keys_quota(store->api_keys, owner) : QUOTA_UNLIMITED;
}

// Sandboxes that wait for room count as well.
static struct quota_used used_by(const struct store *store, const char *owner,
                                 const struct sandbox *except)
{
    struct quota_used u = {.next_end_ms = INT64_MAX};
    for (const struct sandbox *sb = store_first(store); sb; sb = store_next(sb)) {
        if (sb == except || !str_eq(sb->owner, owner) || sb->state >= SANDBOX_KILLING)
            continue;
        bool stands = sb->state == SANDBOX_PAUSED && !sb->asleep;
        u.sandboxes++;
        u.memory_mb += sandbox_is_hibernated(sb) ? 0 : sb->facts.memory_mb;
        u.cpus += stands ? 0 : sb->facts.cpus;
        if (sb->state == SANDBOX_RUNNING && sb->end_ms < u.next_end_ms)
            u.next_end_ms = sb->end_ms;
    }
    return u;
}

static int check_quota(const struct store *store, const char *owner, const struct quota_want *want,
                       const struct sandbox *except, struct err *e)
{
    struct quota q = admit_quota(store, owner);
    struct quota_used used = used_by(store, owner, except);
    return owner ? quota_check(&q, owner, &used, want, e) : 0;
}

static int err_draining(const char *node, struct err *e)
{
    if (!node) // in no fleet
        return err_set(e, ERR_BUSY,
                       "this daemon is being drained and takes no new sandboxes; create one at "
                       "another daemon, or here when the drain has ended");
    return err_set(
        e, ERR_BUSY,
        "node %s is being drained and takes no new sandboxes, also not from its snapshots; "
        "create from a template, or from a snapshot of another node, at the fleet's proxy",
        node);
}

int admit_check_draining(const struct store *store, const char *things, struct err *e)
{
    if (!store->draining)
        return 0;
    if (e)
        e->retry_s = DRAINING_RETRY_S;
    if (!store->node)
        return err_set(e, ERR_BUSY,
                       "this daemon is being drained and takes no new %s; make one at another "
                       "daemon, or here when the drain has ended",
                       things);
    return err_set(e, ERR_BUSY,
                   "node %s is being drained and takes no new %s; make one at the fleet's proxy",
                   store->node, things);
}

int admit_check_create(const struct store *store, const struct create_spec *spec, struct err *e)
{
    const struct machine_facts *facts = &spec->template.facts;
    const struct quota_want want = {1, facts->memory_mb, facts->cpus};
    if (store->stopping)
        return err_set(e, ERR_UNAVAILABLE, "the daemon is stopping");
    if (store->draining) {
        if (e)
            e->retry_s = DRAINING_RETRY_S;
        return err_draining(store->node, e);
    }
    return check_quota(store, spec->owner, &want, NULL, e);
}

int admit_check_arrival(const struct store *store, struct err *e)
{
    long long most = store->limits.admission.sandboxes;
    if (store->stopping)
        return err_set(e, ERR_UNAVAILABLE, "the daemon is stopping");
    if (store->draining)
        return err_set(e, ERR_BUSY, "this node is being drained itself");
    return (long long)store->count < most
               ? 0
               : err_set(e, ERR_BUSY, "this node has its maximum of %lld sandboxes", most);
}

int admit_check_owner(const struct sandbox *sb, struct err *e)
{
    const struct quota_want want = {1, 0, 0};
    if (sb->owner && !api_keys_knows(sb->store->api_keys, sb->owner))
        return err_set(e, ERR_PRECONDITION,
                       "this node does not know the API key \"%.64s\", whose sandbox it is; give "
                       "all nodes the same keys",
                       sb->owner);
    return check_quota(sb->store, sb->owner, &want, sb, e);
}

bool admit_is_leaving(const struct sandbox *sb)
{
    return sb->moving || (sb->store->leaving && !sb->stays);
}

static int check_leaving(const struct sandbox *sb, struct err *e)
{
    if (!admit_is_leaving(sb))
        return 0;
    if (e)
        e->retry_s = DRAINING_RETRY_S;
    if (sb->moving)
        return err_set(e, ERR_BUSY,
                       "the sandbox is being moved to node %s and answers when it is there; "
                       "try again in a moment",
                       sb->moving);
    return err_set(e, ERR_BUSY,
                   "the sandbox is about to be moved to another node; try again in "
                   "a moment");
}

int admit_check_wake(const struct sandbox *sb, struct err *e)
{
    const struct quota_want want = {0, sb->machine ? 0 : sb->facts.memory_mb, sb->facts.cpus};
    if (check_leaving(sb, e) < 0)
        return -1;
    return check_quota(sb->store, sb->owner, &want, sb, e);
}
