// SPDX-License-Identifier: Apache-2.0
// What the sandboxes use of this machine, and what is left of it.
#include "sandbox-backend/daemon/stats.h"

#include <unistd.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/daemon/admission.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/daemon/store.h"

#define NS_PER_S 1e9

struct counts {
    int64_t running, frozen, hibernated;
};

static struct counts count(const struct store *store)
{
    struct counts c = {0};
    for (const struct sandbox *sb = store_first(store); sb; sb = store_next(sb)) {
        bool paused = sb->state == SANDBOX_PAUSED;
        c.running += sandbox_is_known(sb) && !paused;
        c.frozen += paused && sb->machine;
        c.hibernated += paused && !sb->machine;
    }
    return c;
}

// The gauges of the host, in the order in which they are shown.
enum host_gauge {
    MEMORY_TOTAL,
    MEMORY_AVAILABLE,
    MEMORY_RESERVE,
    MEMORY_EXPECTED,
    MEMORY_FREE,
    PROMISED,
    PROMISED_MAX,
    SANDBOXES,
    SANDBOXES_MAX,
    RUNNING,
    FROZEN,
    HIBERNATED,
    POOLED,
    WAITING,
    REFUSED,
    CPUS,
    HOST_GAUGES
};

static const struct {
    const char *json, *name, *kind, *help;
} HOST[HOST_GAUGES] = {
    [MEMORY_TOTAL] = {"memoryTotalBytes", "cubby_host_memory_bytes", "gauge",
                      "Memory of this machine."},
    [MEMORY_AVAILABLE] = {"memoryAvailableBytes", "cubby_host_memory_available_bytes", "gauge",
                          "What the kernel says is available, without swap."},
    [MEMORY_RESERVE] = {"memoryReserveBytes", "cubby_host_memory_reserve_bytes", "gauge",
                        "What sandboxes are to leave available."},
    [MEMORY_EXPECTED] = {"memoryExpectedBytes", "cubby_host_memory_expected_bytes", "gauge",
                         "What sandboxes that began just now will still take."},
    [MEMORY_FREE] = {"memoryFreeBytes", "cubby_host_memory_free_bytes", "gauge",
                     "What is left for new sandboxes; below 0 they wait."},
    [PROMISED] = {"promisedBytes", "cubby_promised_bytes", "gauge",
                  "Memory that guests with a machine see."},
    [PROMISED_MAX] = {"maxPromisedBytes", "cubby_promised_max_bytes", "gauge", "--max-memory."},
    [SANDBOXES] = {"sandboxes", "cubby_sandboxes", "gauge", "Sandboxes, pooled ones apart."},
    [SANDBOXES_MAX] = {"maxSandboxes", "cubby_sandboxes_max", "gauge", "--max-sandboxes."},
    [RUNNING] = {"running", "cubby_sandboxes_running", "gauge", "Those that run."},
    [FROZEN] = {"frozen", "cubby_sandboxes_frozen", "gauge", "Those paused in memory."},
    [HIBERNATED] = {"hibernated", "cubby_sandboxes_hibernated", "gauge",
                    "Those paused on the disk."},
    [POOLED] = {"pooled", "cubby_sandboxes_pooled", "gauge", "Those ready to be handed out."},
    [WAITING] = {"waiting", "cubby_admission_waiting", "gauge", "Those that wait for room."},
    [REFUSED] = {"refused", "cubby_admission_refused_total", "counter",
                 "Those refused for want of room since the start."},
    [CPUS] = {"cpuCount", "cubby_host_cpus", "gauge", "Processors of this machine."},
};

static void host_values(struct store *store, int64_t v[HOST_GAUGES])
{
    struct admission_sums sums = admission_sum(store, NULL);
    struct headroom h = admission_headroom(store, NULL);
    struct counts c = count(store);
    v[MEMORY_TOTAL] = h.total;
    v[MEMORY_AVAILABLE] = h.available;
    v[MEMORY_RESERVE] = headroom_reserve(&h);
    v[MEMORY_EXPECTED] = h.growing;
    v[MEMORY_FREE] = headroom_free(&h);
    v[PROMISED] = sums.promised_bytes;
    v[PROMISED_MAX] = store->limits.memory_bytes;
    v[SANDBOXES] = sums.sandboxes;
    v[SANDBOXES_MAX] = store->limits.sandboxes;
    v[RUNNING] = c.running;
    v[FROZEN] = c.frozen;
    v[HIBERNATED] = c.hibernated;
    v[POOLED] = sums.pooled;
    v[WAITING] = (int64_t)store->waiting.count;
    v[REFUSED] = store->waiting.refused;
    v[CPUS] = sysconf(_SC_NPROCESSORS_ONLN);
}

static double age_s(const struct sandbox *sb)
{
    double s = (double)(clock_wall_ns() - sb->started_ns) / NS_PER_S;
    return s > 0 ? s : 0; // the host's clock may have been set back
}

// ---- JSON
static json_t *sandbox_json(struct sandbox *sb)
{
    const struct usage *u = usage_of(sb);
    json_t *one = json_pack(
        "{s:s, s:s, s:s, s:O, s:i, s:I, s:f, s:I, s:f, s:I, s:I, s:I}", "sandboxID", sb->id,
        "templateID", sb->template, "state", sandbox_shows_running(sb) ? "running" : "paused",
        "metadata", sb->metadata, "cpuCount", sb->facts.cpus, "memoryMB",
        (json_int_t)sb->facts.memory_mb, "ageSeconds", age_s(sb), "memoryBytes",
        (json_int_t)u->last.memory_bytes, "cpuSeconds", (double)u->last.cpu_ns / NS_PER_S,
        "diskBytes", (json_int_t)u->last.disk_bytes, "netInBytes", (json_int_t)u->last.net_in_bytes,
        "netOutBytes", (json_int_t)u->last.net_out_bytes);
    if (u->last.disk_failed)
        json_object_set_new(one, "diskError", json_true());
    bool stands = sb->state == SANDBOX_PAUSED;
    if (stands)
        json_object_set_new(one, "depth", json_string(sb->machine ? "freeze" : "hibernate"));
    json_object_set_new(one, "cpuPercent",
                        stands               ? json_real(0)
                        : u->cpu_percent < 0 ? json_null()
                                             : json_real(u->cpu_percent));
    return one;
}

json_t *stats_json(struct store *store, bool of_host, stats_shows shows, const void *ctx)
{
    int64_t values[HOST_GAUGES] = {0};
    json_t *host = json_object();
    json_t *list = json_array();
    if (of_host)
        host_values(store, values);
    for (size_t i = 0; of_host && i < HOST_GAUGES; i++)
        json_object_set_new(host, HOST[i].json, json_integer(values[i]));
    for (struct sandbox *sb = store_first(store); sb; sb = store_next(sb))
        if (shows(sb, ctx))
            json_array_append_new(list, sandbox_json(sb));
    return json_pack("{s:o, s:o}", "host", host, "sandboxes", list);
}

// ---- text
enum sandbox_gauge { MEMORY, CPU, DISK, NET_IN, NET_OUT, AGE, RUNS, SANDBOX_GAUGES };

static const struct {
    const char *name, *kind, *help;
} ONE[SANDBOX_GAUGES] = {
    [MEMORY] = {"cubby_sandbox_memory_bytes", "gauge", "Memory of the host that it has alone."},
    [CPU] = {"cubby_sandbox_cpu_seconds_total", "counter", "Time of the host's processors."},
    [DISK] = {"cubby_sandbox_disk_bytes", "gauge", "What its disk takes up on the host."},
    [NET_IN] = {"cubby_sandbox_network_receive_bytes_total", "counter", "As its guest sees it."},
    [NET_OUT] = {"cubby_sandbox_network_transmit_bytes_total", "counter", "As its guest sees it."},
    [AGE] = {"cubby_sandbox_age_seconds", "gauge", "Since it was made."},
    [RUNS] = {"cubby_sandbox_running", "gauge", "1 while it runs, 0 while it is paused."},
};

static double value_of(struct sandbox *sb, enum sandbox_gauge which)
{
    const struct machine_usage *last = &usage_of(sb)->last;
    switch (which) {
    case MEMORY:
        return (double)last->memory_bytes;
    case CPU:
        return (double)last->cpu_ns / NS_PER_S;
    case DISK:
        return (double)last->disk_bytes;
    case NET_IN:
        return (double)last->net_in_bytes;
    case NET_OUT:
        return (double)last->net_out_bytes;
    case AGE:
        return age_s(sb);
    case RUNS:
        return sb->state != SANDBOX_PAUSED;
    case SANDBOX_GAUGES:
        break;
    }
    return 0;
}

static void add_head(struct buf *out, const char *name, const char *kind, const char *help)
{
    buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind);
}

// A label's value: backslash, quote and newline are the three that are escaped.
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

static void add_host(struct store *store, struct buf *out)
{
    int64_t values[HOST_GAUGES] = {0};
    host_values(store, values);
    for (size_t i = 0; i < HOST_GAUGES; i++) {
        add_head(out, HOST[i].name, HOST[i].kind, HOST[i].help);
        buf_printf(out, "%s %lld\n", HOST[i].name, (long long)values[i]);
    }
}

void stats_text(struct store *store, bool of_host, stats_shows shows, const void *ctx,
                struct buf *out)
{
    if (of_host)
        add_host(store, out);
    for (size_t i = 0; i < SANDBOX_GAUGES; i++) {
        add_head(out, ONE[i].name, ONE[i].kind, ONE[i].help);
        for (struct sandbox *sb = store_first(store); sb; sb = store_next(sb)) {
            if (!shows(sb, ctx))
                continue;
            buf_printf(out, "%s{", ONE[i].name);
            add_label(out, "sandbox", sb->id);
            buf_adds(out, ",");
            add_label(out, "template", sb->template);
            buf_printf(out, "} %.15g\n", value_of(sb, (enum sandbox_gauge)i));
        }
    }
}
