// SPDX-License-Identifier: Apache-2.0
// The body of a create request (E2B's NewSandbox and NewSandboxV2) as a create_spec.
#include "sandbox-backend/daemon/api/new_sandbox.h"

#include <limits.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/daemon/api/api.h"
#include "sandbox-backend/daemon/api/body.h"
#include "sandbox-backend/daemon/http/api_keys.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/daemon/secrets/secrets.h"
#include "sandbox-backend/drivers/tier.h"

#define TIMEOUT_V1_S  15
#define TIMEOUT_V2_S  300
#define TIER_METADATA "cubby.tier"
#define MEMORY_MB_MIN 256 // less has no room for more than the guest kernel and envd

static int parse_resume(const json_t *body, struct create_spec *out, struct err *e)
{
    const json_t *resume = json_object_get(body, "autoResume");
    if (body_is_empty(resume))
        return 0;
    if (!json_is_object(resume))
        return err_set(e, ERR_INVALID, "autoResume must be an object");
    if (body_check_members(resume, "autoResume.", e, "enabled") < 0)
        return -1;
    return json_get_bool(resume, "enabled", &out->auto_resume, false, e);
}

static int parse_pausing(const json_t *body, struct create_spec *out, struct err *e)
{
    bool memory;
    if (json_get_bool(body, "autoPause", &out->auto_pause, false, e) < 0 ||
        json_get_bool(body, "autoPauseMemory", &memory, true, e) < 0)
        return -1;
    out->auto_pause_disk = out->auto_pause && !memory;
    return parse_resume(body, out, e);
}

static int parse_after(const json_t *idle, const char *key, int64_t *ms, struct err *e)
{
    int64_t seconds;
    if (json_get_int(idle, key, 0, IDLE_MAX_S, &seconds, *ms / 1000, e) < 0)
        return err_wrap(e, "idle");
    if (seconds != *ms / 1000)
        *ms = seconds * 1000;
    return 0;
}

// Read after how many seconds without use the sandbox is put to sleep; 0: never.
static int parse_idle(const struct store *store, const json_t *body, struct create_spec *out,
                      struct err *e)
{
    const json_t *idle = json_object_get(body, "idle");
    out->idle = store->limits.idle;
    if (body_is_empty(idle))
        return 0;
    if (!json_is_object(idle))
        return err_set(e, ERR_INVALID,
                       "idle must be an object: {\"freeze\": SECONDS, "
                       "\"hibernate\": SECONDS}, 0 for never");
    if (body_check_members(idle, "idle.", e, "freeze", "hibernate") < 0 ||
        parse_after(idle, "freeze", &out->idle.freeze_ms, e) < 0)
        return -1;
    return parse_after(idle, "hibernate", &out->idle.hibernate_ms, e);
}

// The SDK starts the servers itself, with the program mcp-gateway of the template. As at E2B, the
// daemon does nothing with them, and no answer shows them.
static int parse_mcp(const json_t *body, struct create_spec *out, struct err *e)
{
    out->mcp = json_object_get(body, "mcp");
    if (body_is_empty(out->mcp) || json_is_object(out->mcp))
        return 0;
    return err_set(e, ERR_INVALID, "mcp must be an object of MCP servers: {\"time\": {}}");
}

static int parse_unavailable(const json_t *body, struct err *e)
{
    const json_t *iam = json_object_get(body, "iam");
    bool asks = iam && !json_is_null(iam); // {"tokens": {}} asks for none
    if (asks && (json_object_size(iam) != 1 || !body_is_empty(json_object_get(iam, "tokens")) ||
                 !json_object_get(iam, "tokens")))
        return err_set(e, ERR_INVALID,
                       "iam is not available here: its tokens are signed by E2B; put a token of "
                       "your own into a secret");
    return 0;
}

static int parse_traffic(const json_t *network, struct create_spec *out, struct err *e)
{
    bool open;
    if (json_get_bool(network, "allowPublicTraffic", &open, true, e) < 0)
        return err_wrap(e, "network");
    if (!open && !out->secure)
        return err_set(e, ERR_INVALID,
                       "network.allowPublicTraffic: false needs secure: true, because anybody "
                       "could reach envd otherwise");
    out->traffic_needs_token = !open;
    return body_mask_host(network, &out->mask_request_host, e);
}

// A member that restricts the network must not be lost because it stands in the wrong place.
static int check_misplaced(const json_t *body, const json_t *network, struct err *e)
{
    static const char *const INSIDE[] = {"allowOut", "denyOut", "allowPublicTraffic"};
    for (size_t i = 0; i < ARRAY_LEN(INSIDE); i++)
        if (json_object_get(body, INSIDE[i]))
            return err_set(e, ERR_INVALID, "%s belongs in network: write network.%s", INSIDE[i],
                           INSIDE[i]);
    if (json_object_get(network, "allow_internet_access"))
        return err_set(e, ERR_INVALID, "allow_internet_access belongs beside network, not in it");
    return 0;
}

static int parse_network(const struct store *store, const json_t *body, bool internet,
                         struct create_spec *out, struct err *e)
{
    const json_t *network = json_object_get(body, "network");
    if (network && !json_is_null(network) && !json_is_object(network))
        return err_set(e, ERR_INVALID, "network must be an object");
    if (check_misplaced(body, network, e) < 0 || parse_traffic(network, out, e) < 0)
        return -1;
    return body_network(network, "network.", internet, store->limits.private_network, &out->policy,
                        e);
}

static int parse_secrets(const struct store *store, const json_t *body, struct create_spec *out,
                         struct err *e)
{
    const struct secrets_wish wish = {
        .names = json_object_get(body, "secrets"),
        .rules = json_object_get(json_object_get(body, "network"), "rules"),
        .proxy = json_object_get(json_object_get(body, "network"), "egressProxy"),
        .owner = out->owner,
        .env = out->env};
    return secrets_wanted(&store->secrets, &wish, &out->secrets, e);
}

static int parse_map(const json_t *body, const char *key, size_t max, json_t **out, struct err *e)
{
    size_t bytes = 0;
    const char *name;
    json_t *value;
    if (json_get_string_map(body, key, out, e) < 0)
        return -1;
    json_object_foreach (*out, name, value)
        bytes += strlen(name) + json_string_length(value);
    if (bytes > max)
        return err_set(e, ERR_INVALID,
                       "%s has %zu bytes of names and values, more than the limit of %zu", key,
                       bytes, max);
    return 0;
}

static int parse_env(const json_t *body, json_t **out, struct err *e)
{
    const char *name;
    json_t *value;
    if (parse_map(body, "envVars", NEW_ENV_BYTES, out, e) < 0)
        return -1;
    json_object_foreach (*out, name, value) {
        if (!*name || strchr(name, '='))
            return err_set(e, ERR_INVALID, "envVars: \"%.80s\" is not a valid variable name", name);
        if (strlen(json_string_value(value)) != json_string_length(value))
            return err_set(e, ERR_INVALID, "envVars: the value of %.80s contains a NUL byte", name);
    }
    return 0;
}

int new_sandbox_timeout(const struct store *store, const json_t *body, int64_t fallback,
                        int64_t *out, struct err *e)
{
    if (json_get_int(body, "timeout", INT64_MIN, INT64_MAX, out, fallback, e) < 0)
        return -1;
    if (*out <= 0)
        return err_set(e, ERR_INVALID, "Timeout must be greater than 0");
    return api_check_timeout(store, *out, e);
}

static int parse_secure(const json_t *body, bool v2, struct create_spec *out, struct err *e)
{
    if (json_get_bool(body, "secure", &out->secure, true, e) < 0)
        return -1;
    if (v2 && !out->secure)
        return err_set(e, ERR_INVALID, "secure: false is only for POST /sandboxes");
    return 0;
}

// A sandbox of a driver that cannot pause never sleeps.
static int ask_driver(struct create_spec *out, struct err *e)
{
    const struct driver *driver = out->template.facts.driver;
    if ((out->auto_pause && driver_need(driver, DRIVER_PAUSES, e) < 0) ||
        (out->auto_pause_disk && driver_need(driver, DRIVER_DISK_IMAGES, e) < 0) ||
        (json_object_size(out->secrets) && driver_need(driver, DRIVER_SECRETS, e) < 0) ||
        (driver->policy_check && driver->policy_check(&out->policy, e) < 0))
        return -1;
    if (!(driver->can & DRIVER_PAUSES))
        out->idle = (struct idle_policy){0};
    if (!(driver->can & DRIVER_SAVES))
        out->idle.hibernate_ms = 0;
    return 0;
}

// ---- size: cpuCount, memoryMB, diskSizeMB. What is absent, or equal, is the template's. With
// other memory or processors the sandbox boots, as no machine of that size was saved; a larger disk
// needs no boot.
struct range {
    const char *key;
    int64_t has; // of the template
    int64_t min, max;
    const char *option; // of cubbyd, which sets the maximum
    enum driver_can need;
};

// *out is 0 for the template's own size, which is possible whatever the limits are.
static int parse_one(const json_t *body, const struct range *r, const struct known_template *t,
                     const char *wanted, int64_t *out, struct err *e)
{
    int64_t asked;
    *out = 0;
    if (json_get_int(body, r->key, 0, INT64_MAX, &asked, r->has, e) < 0)
        return -1;
    if (asked == r->has)
        return 0;
    if (t->image)
        return err_set(e, ERR_INVALID,
                       "%s: a sandbox from a snapshot has the saved sandbox's size, %lld; leave "
                       "this member out",
                       r->key, (long long)r->has);
    if (driver_need(t->facts.driver, r->need, e) < 0)
        return -1;
    if (asked < r->min || asked > r->max)
        return err_set(e, ERR_INVALID,
                       "%s: %lld is out of range: it may be %lld to %lld, and template \"%.80s\" "
                       "has %lld; %s of cubbyd sets the maximum",
                       r->key, (long long)asked, (long long)r->min, (long long)r->max, wanted,
                       (long long)r->has, r->option);
    *out = asked;
    return 0;
}

// Put the size into the facts as well, which everything else reads.
static void take(struct known_template *t, int64_t cpus, int64_t memory_mb, int64_t disk_mb)
{
    t->size = (struct machine_size){.cpus = (int)cpus, .memory_mb = memory_mb, .disk_mb = disk_mb};
    t->facts.cpus = cpus ? (int)cpus : t->facts.cpus;
    t->facts.memory_mb = memory_mb ? memory_mb : t->facts.memory_mb;
    t->facts.disk_mb = disk_mb ? disk_mb : t->facts.disk_mb;
}

// A disk that is kept in memory counts as memory.
static int check_disk_in_memory(const struct known_template *t, int64_t max_mb, struct err *e)
{
    const struct machine_facts *f = &t->facts;
    if (!f->driver->disk_in_memory || f->memory_mb + f->disk_mb <= max_mb)
        return 0;
    return err_set(e, ERR_INVALID,
                   "diskSizeMB: tier '%s' keeps the disk in memory, and %lld MB of memory and %lld "
                   "MB of disk are more than %lld MB; ask for less, or for tier microvm "
                   "(--max-sandbox-memory of cubbyd sets the maximum)",
                   f->driver->name, (long long)f->memory_mb, (long long)f->disk_mb,
                   (long long)max_mb);
}

static int parse_size(const struct store *store, const json_t *body, const char *wanted,
                      struct known_template *t, struct err *e)
{
    const struct store_limits *l = &store->limits;
    const struct range cpus = {"cpuCount",  t->facts.cpus,        1,
                               l->one_cpus, "--max-sandbox-cpus", DRIVER_SIZES};
    const struct range memory = {"memoryMB",
                                 t->facts.memory_mb,
                                 MEMORY_MB_MIN,
                                 l->one_memory_bytes >> 20,
                                 "--max-sandbox-memory",
                                 DRIVER_SIZES};
    const struct range disk = {"diskSizeMB",         t->facts.disk_mb,
                               t->facts.disk_mb,     l->one_disk_bytes >> 20,
                               "--max-sandbox-disk", DRIVER_DISKS};
    int64_t asked_cpus, asked_memory, asked_disk;
    if (parse_one(body, &cpus, t, wanted, &asked_cpus, e) < 0 ||
        parse_one(body, &memory, t, wanted, &asked_memory, e) < 0 ||
        parse_one(body, &disk, t, wanted, &asked_disk, e) < 0)
        return -1;
    if (asked_disk && !t->facts.disk_grows)
        return err_set(e, ERR_INVALID,
                       "diskSizeMB: template \"%.80s\" is too old for a larger disk; build it "
                       "again with: cubby template build %.80s",
                       wanted, t->name);
    if (!t->image)
        take(t, asked_cpus, asked_memory, asked_disk);
    return asked_disk ? check_disk_in_memory(t, l->one_memory_bytes >> 20, e) : 0;
}

// Read what decides about the tier. E2B's SDKs send no member of Cubby's, so the tier may also
// stand in the metadata.
static int parse_wish(const json_t *body, const json_t *metadata, struct tier_wish *out,
                      struct err *e)
{
    const char *named = json_string_value(json_object_get(metadata, TIER_METADATA));
    int64_t cpus;
    if (json_get_string(body, "tier", &out->tier, named, e) < 0 ||
        json_get_int(body, "cpuCount", 0, INT_MAX, &cpus, 0, e) < 0 ||
        json_get_int(body, "memoryMB", 0, INT64_MAX, &out->size.memory_mb, 0, e) < 0)
        return -1;
    out->size.cpus = (int)cpus;
    return json_get_int(body, "diskSizeMB", 0, INT64_MAX, &out->size.disk_mb, 0, e);
}

// A caller on the unix socket has no owner.
static const char *tiers_of(const struct store *store, const char *owner)
{
    if (!owner)
        return NULL;
    return store->api_keys ? api_keys_tiers(store->api_keys, owner) : "";
}

// ---- all of it
int new_sandbox_parse(const struct store *store, const json_t *body, bool v2,
                      struct create_spec *out, struct err *e)
{
    const char *template = NULL;
    struct tier_wish wish = {.tiers_of_key = tiers_of(store, out->owner)};
    bool internet, no_wider;
    *out = (struct create_spec){.owner = out->owner};
    if (!json_is_object(body))
        return err_set(e, ERR_INVALID, "the body must be a JSON object");
    // "name" is ignored. For the last three the error says where they belong.
    if (body_check_members(body, "", e, "templateID", "timeout", "metadata", "envVars", "secure",
                           "allow_internet_access", "network", "autoPause", "autoPauseMemory",
                           "autoResume", "mcp", "iam", "volumeMounts", "sliding", "idle",
                           "cpuCount", "memoryMB", "diskSizeMB", "secrets", "noWiderNetwork",
                           "tier", "name", "allowOut", "denyOut", "allowPublicTraffic") < 0 ||
        json_get_string(body, "templateID", &template, NULL, e) < 0)
        return -1;
    if (!template || !*template)
        return err_set(e, ERR_INVALID, "templateID is required");
    if (new_sandbox_timeout(store, body, v2 ? TIMEOUT_V2_S : TIMEOUT_V1_S, &out->timeout_s, e) <
            0 ||
        parse_secure(body, v2, out, e) < 0 ||
        json_get_bool(body, "sliding", &out->sliding, false, e) < 0 ||
        parse_map(body, "metadata", NEW_METADATA_BYTES, &out->metadata, e) < 0 ||
        parse_env(body, &out->env, e) < 0 || parse_pausing(body, out, e) < 0 ||
        parse_idle(store, body, out, e) < 0 || parse_mcp(body, out, e) < 0 ||
        parse_unavailable(body, e) < 0 ||
        json_get_bool(body, "allow_internet_access", &internet, true, e) < 0 ||
        json_get_bool(body, "noWiderNetwork", &no_wider, false, e) < 0 ||
        parse_network(store, body, internet, out, e) < 0 || parse_secrets(store, body, out, e) < 0)
        return -1;
    if (parse_wish(body, out->metadata, &wish, e) < 0 ||
        templates_find_as(store, out->owner, template, &wish, &out->template, e) < 0 ||
        (out->template.snapshot &&
         tier_check_snapshot(out->template.snapshot, out->template.facts.driver, &wish, e) < 0) ||
        body_network_keep(json_object_get(body, "network"), internet, store->limits.private_network,
                          out->template.policy, !out->owner && !no_wider, &out->policy, e) < 0 ||
        ask_driver(out, e) < 0)
        return -1;
    return parse_size(store, body, template, &out->template, e);
}
