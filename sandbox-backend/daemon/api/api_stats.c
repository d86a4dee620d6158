// SPDX-License-Identifier: Apache-2.0
// Figures of usage. Cubby's own GET /sandboxes/stats (JSON) and /metrics (text for Prometheus) tell
// what the sandboxes use of this host, and what is left of it. E2B's GET /sandboxes/{id}/metrics
// and /sandboxes/metrics tell what each guest says of itself.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/api/api.h"
#include "sandbox-backend/daemon/api/api_merge.h"
#include "sandbox-backend/daemon/http/api_keys.h"
#include "sandbox-backend/daemon/http/reply.h"
#include "sandbox-backend/daemon/sandbox/admit.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/daemon/sandbox/templates.h"

#define NS_PER_S    1000000000LL
#define SECONDS_MAX (INT64_MAX / NS_PER_S)
#define IDS_BYTES   (100 * (SANDBOX_ID_MAX + 12))
#define TEXT_TYPE   "text/plain; version=0.0.4; charset=utf-8"

// A request that waits until the figures are fresh.
struct pending {
    struct store *store;
    struct http_request *req; // NULL once the client has gone
    char *ids;                // owned; ids of sandboxes with commas between; NULL: all
    bool as_text;             // of stats
    bool single;              // of metrics: all samples of one sandbox
    int64_t from_ns, to_ns;   // of metrics
    size_t waiting;           // of metrics: number of callbacks owed
};

static struct pending *pending_new(const struct api_call *c, const char *ids)
{
    struct pending *p = xcalloc(1, sizeof *p);
    p->store = c->store;
    p->ids = ids ? xstrdup(ids) : NULL;
    reply_later(c->req, &p->req);
    return p;
}

static void pending_free(struct pending *p)
{
    free(p->ids);
    free(p);
}

// Return whether a comma-separated list names this id; NULL names all.
static bool names(const char *ids, const char *id)
{
    for (const char *at = ids; at && *at;) {
        size_t len = strcspn(at, ",");
        if (strcspn(at, ",-") == strlen(id) && str_starts(at, id))
            return true;
        at += len;
        at += *at == ',';
    }
    return !ids;
}

static bool is_asked_for(const struct pending *p, const struct sandbox *sb)
{
    return sandbox_is_known(sb) && names(p->ids, sb->id) &&
           api_keys_sees(p->store->api_keys, p->req, sb->owner);
}

// ---- 1. figures of the host
#define HOST_GAUGES 16

struct host_gauge {
    const char *json;               // the member of "host"
    const char *name, *kind, *help; // for Prometheus
    int64_t value;
};

static void host_gauges(const struct store *store, struct host_gauge out[HOST_GAUGES])
{
    const struct admission *a = &store->admission;
    struct admission_sums sums = admission_sum(a, NULL);
    struct headroom h = admission_headroom(a, NULL);
    int64_t running = 0, frozen = 0, hibernated = 0;
    for (const struct sandbox *sb = store_first(store); sb; sb = store_next(sb)) {
        bool paused = sb->state == SANDBOX_PAUSED;
        running += sandbox_is_known(sb) && !paused;
        frozen += paused && sb->machine;
        hibernated += paused && !sb->machine;
    }
    const struct host_gauge all[HOST_GAUGES] = {
        {"memoryTotalBytes", "cubby_host_memory_bytes", "gauge", "Memory of this host.", h.total},
        {"memoryAvailableBytes", "cubby_host_memory_available_bytes", "gauge",
         "Available memory as the kernel reports it, without swap.", h.available},
        {"memoryReserveBytes", "cubby_host_memory_reserve_bytes", "gauge",
         "Memory that sandboxes must leave available.", headroom_reserve(&h)},
        {"memoryExpectedBytes", "cubby_host_memory_expected_bytes", "gauge",
         "Memory that new sandboxes are still expected to take.", h.growing},
        {"memoryFreeBytes", "cubby_host_memory_free_bytes", "gauge",
         "Memory left for new sandboxes; below 0 they wait.", headroom_free(&h)},
        {"promisedBytes", "cubby_promised_bytes", "gauge",
         "Memory of all guests that have a machine, as they see it.", sums.promised_bytes},
        {"maxPromisedBytes", "cubby_promised_max_bytes", "gauge", "--max-memory.",
         a->limits.memory_bytes},
        {"sandboxes", "cubby_sandboxes", "gauge", "Sandboxes, not counting the pool's.",
         sums.sandboxes},
        {"maxSandboxes", "cubby_sandboxes_max", "gauge", "--max-sandboxes.", a->limits.sandboxes},
        {"running", "cubby_sandboxes_running", "gauge", "Sandboxes that run.", running},
        {"frozen", "cubby_sandboxes_frozen", "gauge", "Sandboxes paused in memory.", frozen},
        {"hibernated", "cubby_sandboxes_hibernated", "gauge", "Sandboxes paused on the disk.",
         hibernated},
        {"pooled", "cubby_sandboxes_pooled", "gauge", "Sandboxes that the pool keeps ready.",
         sums.pooled},
        {"waiting", "cubby_admission_waiting", "gauge", "Sandboxes that wait for room.",
         (int64_t)a->waiting},
        {"refused", "cubby_admission_refused_total", "counter",
         "Sandboxes refused since the daemon's start because there was no room.", a->refused},
        {"cpuCount", "cubby_host_cpus", "gauge", "Processors of this host.",
         sysconf(_SC_NPROCESSORS_ONLN)},
    };
    memcpy(out, all, sizeof all);
}

static double age_s(const struct sandbox *sb)
{
    double s = (double)(clock_wall_ns() - sb->started_ns) / 1e9;
    return s > 0 ? s : 0; // the host's clock may have been set back
}

// ---- 2. stats as JSON
static json_t *sandbox_json(struct sandbox *sb)
{
    const struct host_usage *u = usage_of(sb);
    json_t *one = json_pack(
        "{s:s, s:s, s:s, s:O, s:i, s:I, s:f, s:I, s:f, s:I, s:I, s:I}", "sandboxID", sb->id,
        "templateID", templates_shown(sb->store, sb->template), "state",
        sandbox_shows_running(sb) ? "running" : "paused", "metadata", sb->metadata, "cpuCount",
        sb->facts.cpus, "memoryMB", (json_int_t)sb->facts.memory_mb, "ageSeconds", age_s(sb),
        "memoryBytes", (json_int_t)u->last.memory_bytes, "cpuSeconds", (double)u->last.cpu_ns / 1e9,
        "diskBytes", (json_int_t)u->last.disk_bytes, "netInBytes", (json_int_t)u->last.net_in_bytes,
        "netOutBytes", (json_int_t)u->last.net_out_bytes);
    if (u->last.disk_failed)
        json_object_set_new(one, "diskError", json_true());
    if (u->last.disk_full)
        json_object_set_new(one, "diskFull", json_true());
    bool stands = sb->state == SANDBOX_PAUSED;
    if (stands)
        json_object_set_new(one, "depth", json_string(sb->machine ? "freeze" : "hibernate"));
    json_object_set_new(one, "cpuPercent",
                        stands               ? json_real(0)
                        : u->cpu_percent < 0 ? json_null()
                                             : json_real(u->cpu_percent));
    return one;
}

// The sums of "host" are over all owners, so it is empty without `of_host`.
static json_t *stats_json(const struct pending *p, bool of_host)
{
    struct host_gauge gauges[HOST_GAUGES];
    json_t *host = json_object();
    json_t *list = json_array();
    if (of_host)
        host_gauges(p->store, gauges);
    for (size_t i = 0; of_host && i < HOST_GAUGES; i++)
        json_object_set_new(host, gauges[i].json, json_integer(gauges[i].value));
    for (struct sandbox *sb = store_first(p->store); sb; sb = store_next(sb))
        if (is_asked_for(p, sb))
            json_array_append_new(list, sandbox_json(sb));
    return json_pack("{s:o, s:o}", "host", host, "sandboxes", list);
}

// ---- 3. stats as text: https://prometheus.io/docs/instrumenting/exposition_formats, 0.0.4
enum sandbox_gauge { MEMORY, CPU, DISK, NET_IN, NET_OUT, AGE, RUNS, SANDBOX_GAUGES };

static const struct {
    const char *name, *kind, *help;
} ONE[SANDBOX_GAUGES] = {
    [MEMORY] = {"cubby_sandbox_memory_bytes", "gauge",
                "Memory of the host that only this sandbox uses."},
    [CPU] = {"cubby_sandbox_cpu_seconds_total", "counter",
             "Processor time of the host that the sandbox has used."},
    [DISK] = {"cubby_sandbox_disk_bytes", "gauge",
              "Space that the sandbox's disk takes up on the host."},
    [NET_IN] = {"cubby_sandbox_network_receive_bytes_total", "counter", "As its guest sees it."},
    [NET_OUT] = {"cubby_sandbox_network_transmit_bytes_total", "counter", "As its guest sees it."},
    [AGE] = {"cubby_sandbox_age_seconds", "gauge", "Since it was created."},
    [RUNS] = {"cubby_sandbox_running", "gauge", "1 while it runs, 0 while it is paused."},
};

static double value_of(struct sandbox *sb, enum sandbox_gauge which)
{
    const struct machine_usage *last = &usage_of(sb)->last;
    const double values[SANDBOX_GAUGES] = {
        [MEMORY] = (double)last->memory_bytes,   [CPU] = (double)last->cpu_ns / 1e9,
        [DISK] = (double)last->disk_bytes,       [NET_IN] = (double)last->net_in_bytes,
        [NET_OUT] = (double)last->net_out_bytes, [AGE] = age_s(sb),
        [RUNS] = sb->state != SANDBOX_PAUSED,
    };
    return values[which];
}

static void add_head(struct buf *out, const char *name, const char *kind, const char *help)
{
    buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind);
}

// In a label's value, backslash, quote and newline are escaped.
static void add_label(struct buf *out, const char *name, const char *value)
{
    buf_printf(out, "%s=\"", name);
    for (const char *c = value; *c; c++) {
        if (*c == '\\' || *c == '"')
            buf_add(out, "\\", 1);
        buf_adds(out, *c == '\n' ? "\\n" : (const char[]){*c, '\0'});
    }
    buf_adds(out, "\"");
}

static void add_host(const struct store *store, struct buf *out)
{
    struct host_gauge g[HOST_GAUGES];
    host_gauges(store, g);
    for (size_t i = 0; i < HOST_GAUGES; i++) {
        add_head(out, g[i].name, g[i].kind, g[i].help);
        buf_printf(out, "%s %lld\n", g[i].name, (long long)g[i].value);
    }
}

static void stats_text(const struct pending *p, bool of_host, struct buf *out)
{
    if (of_host)
        add_host(p->store, out);
    for (size_t i = 0; i < SANDBOX_GAUGES; i++) {
        add_head(out, ONE[i].name, ONE[i].kind, ONE[i].help);
        for (struct sandbox *sb = store_first(p->store); sb; sb = store_next(sb)) {
            if (!is_asked_for(p, sb))
                continue;
            buf_printf(out, "%s{", ONE[i].name);
            add_label(out, "sandbox", sb->id);
            buf_adds(out, ",");
            add_label(out, "template", templates_shown(sb->store, sb->template));
            buf_printf(out, "} %.15g\n", value_of(sb, (enum sandbox_gauge)i));
        }
    }
}

static void on_measured(void *ctx)
{
    struct pending *p = ctx;
    bool of_host = p->req && api_keys_sees_host(p->store->api_keys, p->req);
    if (p->req && p->as_text) {
        struct buf text auto_buf = BUF_INIT;
        stats_text(p, of_host, &text);
        http_respond(p->req, 200, TEXT_TYPE, text.data, text.len);
    } else if (p->req) {
        api_merge_member(p->store, p->req, stats_json(p, of_host), "sandboxes");
    }
    pending_free(p);
}

static int measure(const struct api_call *c, const char *id, bool as_text)
{
    struct pending *p = pending_new(c, id);
    p->as_text = as_text;
    host_usage_refresh(&c->store->sampler, HOST_USAGE_FRESH_MS, on_measured, p);
    return 0;
}

int api_stats(struct api_call *c, struct err *e)
{
    (void)e;
    const char *id = http_request_query(c->req, "sandboxID", NULL);
    const struct sandbox *sb = id ? api_find(c->store, c->req, id) : NULL;
    return id && !sb ? 0 : measure(c, sb ? sb->id : NULL, false);
}

int api_prometheus(struct api_call *c, struct err *e)
{
    (void)e;
    return measure(c, NULL, true);
}

// ---- 4. metrics: what guests say
static json_t *samples_of(const struct pending *p, const struct sandbox *sb)
{
    json_t *list = json_array();
    for (size_t i = 0; i < sb->guest_usage.count; i++) {
        const struct guest_usage_sample *s = guest_usage_at(&sb->guest_usage, i);
        if (s->at_ns >= p->from_ns && s->at_ns <= p->to_ns)
            json_array_append_new(list, guest_usage_json(s));
    }
    return list;
}

// The last sample of each sandbox.
static json_t *last_samples(const struct pending *p)
{
    json_t *all = json_object();
    for (struct sandbox *sb = store_first(p->store); sb; sb = store_next(sb)) {
        const struct guest_usage *u = &sb->guest_usage;
        if (is_asked_for(p, sb) && u->count)
            json_object_set_new(all, sb->id, guest_usage_json(guest_usage_at(u, u->count - 1)));
    }
    return json_pack("{s:o}", "sandboxes", all);
}

static void on_told(void *ctx)
{
    struct pending *p = ctx;
    if (--p->waiting)
        return;
    if (p->req && p->single) {
        // The sandbox may have ended meanwhile.
        const struct sandbox *sb = api_find(p->store, p->req, p->ids);
        if (sb)
            reply_json(p->req, 200, samples_of(p, sb));
    } else if (p->req) {
        api_merge_member(p->store, p->req, last_samples(p), "sandboxes");
    }
    pending_free(p);
}

static int read_time(struct http_request *req, const char *name, int64_t *seconds, struct err *e)
{
    const char *text = http_request_query(req, name, NULL);
    if (!text || !*text || str_to_int(text, 0, SECONDS_MAX - 1, seconds))
        return 0;
    return err_set(e, ERR_INVALID, "%s must be a time in whole seconds since 1970", name);
}

int api_metrics(struct api_call *c, struct err *e)
{
    int64_t from = 0, to = SECONDS_MAX - 1;
    if (read_time(c->req, "start", &from, e) < 0 || read_time(c->req, "end", &to, e) < 0)
        return -1;
    struct pending *p = pending_new(c, c->arg);
    p->single = true;
    p->from_ns = from * NS_PER_S;
    p->to_ns = to * NS_PER_S + NS_PER_S - 1; // to the end of that second
    p->waiting = 1;
    usage_ask_guest(c->sb, on_told, p);
    return 0;
}

int api_metrics_all(struct api_call *c, struct err *e)
{
    const char *ids = http_request_query(c->req, "sandbox_ids", NULL);
    if (ids && strlen(ids) > IDS_BYTES)
        return err_set(e, ERR_INVALID, "sandbox_ids has more than 100 ids");
    struct pending *p = pending_new(c, ids);
    p->waiting = 1; // for this function
    for (struct sandbox *sb = store_first(c->store); sb; sb = store_next(sb)) {
        if (!is_asked_for(p, sb))
            continue;
        p->waiting++;
        usage_ask_guest(sb, on_told, p);
    }
    on_told(p);
    return 0;
}
