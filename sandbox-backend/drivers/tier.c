// SPDX-License-Identifier: Apache-2.0
// The choice of a tier.
#include "sandbox-backend/drivers/tier.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/template_dirs.h"

#define TEMPLATE_BYTES_MAX 65536
#define NAMES_BYTES        120

// The operator's choice. One daemon has one.
static const struct driver *usual; // NULL: auto
static unsigned allowed;           // bits of DRIVERS; 0: no list was given

static unsigned bit_of(const struct driver *driver)
{
    for (unsigned i = 0; DRIVERS[i]; i++)
        if (DRIVERS[i] == driver)
            return 1u << i;
    return 0;
}

// ---- the operator's choice

// Join the names of the drivers that pass the test with ", ".
static const char *names_of(bool (*passes)(const struct driver *), char text[NAMES_BYTES])
{
    size_t n = 0;
    text[0] = '\0';
    for (size_t i = 0; DRIVERS[i]; i++)
        if (passes(DRIVERS[i]) && n < NAMES_BYTES)
            n += (size_t)snprintf(text + n, NAMES_BYTES - n, "%s%s", n ? ", " : "",
                                  DRIVERS[i]->name);
    return text;
}

static bool is_any(const struct driver *driver)
{
    return driver;
}

// Find a tier that a person named; *out is NULL for TIER_AUTO.
static int find_named(const char *name, const struct driver **out, struct err *e)
{
    char all[NAMES_BYTES];
    *out = str_eq(name, TIER_AUTO) ? NULL : driver_find(name);
    if (*out || str_eq(name, TIER_AUTO))
        return 0;
    return err_set(e, ERR_INVALID, "there is no tier '%.40s'; choose one of: " TIER_AUTO ", %s",
                   name, names_of(is_any, all));
}

static int read_allowed(const char *list, struct err *e)
{
    char *copy auto_free = xstrdup(list);
    char *rest = copy;
    for (char *name; (name = strsep(&rest, ","));) {
        const struct driver *driver = NULL;
        if (find_named(name, &driver, e) < 0)
            return -1;
        if (!driver)
            return err_set(e, ERR_INVALID,
                           TIER_AUTO " is not a tier; give the names of the allowed tiers");
        allowed |= bit_of(driver);
    }
    return 0;
}

int tiers_set(const char *usual_name, const char *allowed_names, struct err *e)
{
    usual = NULL;
    allowed = 0;
    if (find_named(usual_name, &usual, e) < 0)
        return err_wrap(e, "--tier");
    if (allowed_names && read_allowed(allowed_names, e) < 0)
        return err_wrap(e, "--tiers-allowed");
    if (usual && usual->must_be_allowed && !(allowed & bit_of(usual)))
        return err_set(e, ERR_INVALID,
                       "--tier %s shares the host's kernel with its sandboxes; if you trust what "
                       "runs in them, say so with --tiers-allowed %s",
                       usual->name, usual->name);
    if (!usual || !allowed || allowed & bit_of(usual))
        return 0;
    return err_set(e, ERR_INVALID, "--tier %s is not among --tiers-allowed %.80s", usual->name,
                   allowed_names);
}

static bool is_allowed(const struct driver *driver)
{
    if (allowed)
        return allowed & bit_of(driver);
    return usual ? driver == usual : driver->rank != NULL;
}

// Tell whether a comma-separated list has this name.
static bool has_name(const char *list, const char *name)
{
    size_t len = strlen(name);
    for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == len && strncmp(at, name, len) == 0)
            return true;
    return false;
}

static bool is_for_key(const struct driver *driver, const char *tiers_of_key)
{
    if (!tiers_of_key)
        return true;
    return *tiers_of_key ? has_name(tiers_of_key, driver->name) : !driver->must_be_allowed;
}

static int refuse(const struct driver *driver, struct err *e)
{
    char names[NAMES_BYTES];
    return err_set(e, ERR_INVALID,
                   "tier '%s' is not offered by this cubbyd; it offers: %s (its operator sets "
                   "--tiers-allowed)",
                   driver->name, names_of(is_allowed, names));
}

static int check_key(const struct driver *driver, const struct tier_wish *wish, struct err *e)
{
    if (is_for_key(driver, wish->tiers_of_key))
        return 0;
    return err_set(e, ERR_DENIED,
                   "tier '%s' is not for this API key; the operator can add it to the key's "
                   "\"tiers\" in keys.json",
                   driver->name);
}

// ---- auto

// Return the driver that template.json names. An unreadable template.json counts as the default
// driver's, whose error says what to do.
static const struct driver *driver_of_template(const char *template_dir, struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    char *path auto_free = str_printf("%s/template.json", template_dir);
    json_t *json = file_read(path, TEMPLATE_BYTES_MAX, &text, NULL) == 0
                       ? json_parse(buf_str(&text), text.len, NULL)
                       : NULL;
    const char *name = json_string_value(json_object_get(json, "driver"));
    const struct driver *driver = driver_find(name);
    if (!driver)
        err_set(e, ERR_PRECONDITION,
                "this cubbyd has no driver '%.40s', which the template needs; build the template "
                "again",
                name);
    json_decref(json);
    return driver;
}

static int load(const struct driver *driver, const char *template_dir, struct machine_facts *out,
                struct err *e)
{
    *out = (struct machine_facts){0};
    if (driver->facts(template_dir, out, e) < 0)
        return -1;
    out->driver = driver;
    return 0;
}

// Tell whether the driver can give a machine of the template this size.
static int check_size(const struct driver *driver, const struct machine_facts *facts,
                      const struct machine_size *wanted, struct err *why)
{
    bool other_disk = wanted->disk_mb && wanted->disk_mb != facts->disk_mb;
    bool other = other_disk || (wanted->cpus && wanted->cpus != facts->cpus) ||
                 (wanted->memory_mb && wanted->memory_mb != facts->memory_mb);
    if ((other && driver_need(driver, DRIVER_SIZES, why) < 0) ||
        (other_disk && driver_need(driver, DRIVER_DISKS, why) < 0))
        return -1;
    if (other_disk && !facts->disk_grows)
        return err_set(why, ERR_UNIMPLEMENTED,
                       "tier '%s': the template is too old for another disk size; build it again",
                       driver->name);
    return 0;
}

// Load the facts with this driver, and tell its rank. `why`: why the rank is not higher.
static enum driver_rank try_driver(const struct driver *driver, const char *template_dir,
                                   const struct machine_size *wanted, struct machine_facts *out,
                                   struct err *why)
{
    if (load(driver, template_dir, out, why) < 0 || check_size(driver, out, wanted, why) < 0)
        return RANK_NONE;
    enum driver_rank rank = driver->rank(template_dir, out, why);
    if (!driver->disk_in_memory || !wanted->disk_mb || wanted->disk_mb == out->disk_mb ||
        rank <= RANK_EMULATED)
        return rank;
    // A larger disk would take the host's memory, so any other driver is better.
    err_set(why, ERR_UNIMPLEMENTED, "driver '%s' keeps a sandbox's disk in memory", driver->name);
    return RANK_EMULATED;
}

// Try the drivers in the order of the table; the first of the highest rank wins. The best rank ends
// the search, because finding out the others may take a while.
static int choose(const char *template_dir, const struct tier_wish *wish, struct machine_facts *out,
                  struct err *e)
{
    enum driver_rank best = RANK_NONE;
    struct buf reason auto_buf = BUF_INIT;
    struct err first = ERR_INIT; // of the drivers that cannot
    for (size_t i = 0; DRIVERS[i] && best != RANK_HARDWARE; i++) {
        struct machine_facts facts;
        struct err why = ERR_INIT;
        if (!DRIVERS[i]->rank || !is_allowed(DRIVERS[i]) ||
            !is_for_key(DRIVERS[i], wish->tiers_of_key))
            continue;
        enum driver_rank rank = try_driver(DRIVERS[i], template_dir, &wish->size, &facts, &why);
        if (rank == RANK_NONE && !err_is(&first))
            first = why;
        if (err_is(&why))
            buf_printf(&reason, "%s%s", reason.len ? "; " : "", why.msg);
        if (rank > best) {
            best = rank;
            *out = facts;
        }
    }
    if (best == RANK_NONE) {
        err_set(e, err_is(&first) ? first.code : ERR_PRECONDITION, "%s",
                reason.len ? buf_str(&reason) : "tier auto can choose none of the allowed tiers");
        return -1;
    }
    snprintf(out->reason, sizeof out->reason, "%s",
             best == RANK_HARDWARE ? "the guest kernel boots under KVM" : buf_str(&reason));
    return 0;
}

// ---- a new machine
int tier_facts(const char *template_dir, const struct tier_wish *wish, struct machine_facts *out,
               struct err *e)
{
    static const struct tier_wish NONE;
    const struct driver *named = usual;
    struct err unused = ERR_INIT;
    e = e ? e : &unused; // drivers need one
    wish = wish ? wish : &NONE;
    if (wish->tier && find_named(wish->tier, &named, e) < 0)
        return -1;
    if (wish->tier && named && !is_allowed(named))
        return refuse(named, e);
    if (named)
        return check_key(named, wish, e) < 0 ? -1 : load(named, template_dir, out, e);
    const struct driver *own = driver_of_template(template_dir, e);
    if (!own)
        return -1;
    if (own->must_be_allowed && !is_allowed(own))
        return refuse(own, e);
    if (own->rank)
        return choose(template_dir, wish, out, e);
    return check_key(own, wish, e) < 0 ? -1 : load(own, template_dir, out, e);
}

void tiers_prepare(const char *home)
{
    char *dir auto_free = template_dirs_find(home, "default");
    struct machine_facts facts;
    struct err ignored = ERR_INIT; // the first create reports it
    if (!usual && file_exists(dir))
        tier_facts(dir, NULL, &facts, &ignored);
}

int tier_check_snapshot(const char *id, const struct driver *driver, const struct tier_wish *wish,
                        struct err *e)
{
    const struct driver *named = NULL;
    if (wish->tier && find_named(wish->tier, &named, e) < 0)
        return -1;
    if (named && named != driver)
        return err_set(e, ERR_INVALID,
                       "snapshot '%s' is of tier %s and cannot be restored in tier %s; leave the "
                       "tier out",
                       id, driver->name, named->name);
    return allowed && !is_allowed(driver) ? refuse(driver, e) : check_key(driver, wish, e);
}
