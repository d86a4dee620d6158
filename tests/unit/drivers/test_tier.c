// SPDX-License-Identifier: Apache-2.0
// The choice of a tier, among stand-ins for drivers.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/tier.h"
#include "tests/lib/harness/tap.h"

// The host and the template of the next choice.
static enum driver_rank machine_rank, sentry_rank;
static bool machine_fits, sentry_fits;
static int sentry_looks; // how often the second driver was asked for its rank
static bool disks_grow;

static int machine_facts_of(const char *dir, struct machine_facts *out, struct err *e)
{
    (void)dir;
    out->cpus = 1;
    out->disk_grows = disks_grow;
    return machine_fits ? 0 : err_set(e, ERR_NOT_FOUND, "QEMU is missing");
}

static enum driver_rank rank_machine(const char *dir, const struct machine_facts *facts,
                                     struct err *why)
{
    (void)dir;
    (void)facts;
    if (machine_rank != RANK_HARDWARE)
        err_set(why, ERR_PRECONDITION, "KVM: the kernel did not boot under it");
    return machine_rank;
}

static int sentry_facts_of(const char *dir, struct machine_facts *out, struct err *e)
{
    (void)dir;
    out->cpus = 2;
    out->disk_grows = disks_grow;
    return sentry_fits ? 0 : err_set(e, ERR_NOT_FOUND, "runsc is not installed");
}

static enum driver_rank rank_sentry(const char *dir, const struct machine_facts *facts,
                                    struct err *why)
{
    (void)dir;
    (void)facts;
    sentry_looks++;
    if (sentry_rank == RANK_NONE)
        err_set(why, ERR_PRECONDITION, "gVisor does not work on this host");
    return sentry_rank;
}

static int bare_facts_of(const char *dir, struct machine_facts *out, struct err *e)
{
    (void)dir;
    (void)e;
    out->cpus = 3;
    return 0;
}

static const struct driver MACHINE = {.name = "microvm",
                                      .can = DRIVER_SIZES | DRIVER_DISKS,
                                      .facts = machine_facts_of,
                                      .rank = rank_machine};
static struct driver SENTRY = {.name = "gvisor", .facts = sentry_facts_of, .rank = rank_sentry};
static struct driver BARE = {.name = "none", .facts = bare_facts_of};
const struct driver *const DRIVERS[] = {&MACHINE, &SENTRY, &BARE, NULL};

static char dir[] = "/tmp/cubby-tier-XXXXXX";

static void template_names(const char *driver)
{
    struct err e = ERR_INIT;
    char *path auto_free = str_printf("%s/template.json", dir);
    char *text auto_free = str_printf("{\"driver\": \"%s\"}", driver);
    if (file_replace(path, text, strlen(text), 0600, &e) < 0)
        ok(false, "%s", e.msg);
}

static void host(enum driver_rank machine, bool has_sentry, enum driver_rank sentry)
{
    machine_fits = machine != RANK_NONE;
    machine_rank = machine;
    sentry_fits = has_sentry;
    sentry_rank = sentry;
}

static void set(const char *usual, const char *allowed)
{
    struct err e = ERR_INIT;
    ok(tiers_set(usual, allowed, &e) == 0, "--tier %s --tiers-allowed %s %s", usual,
       allowed ? allowed : "-", e.msg);
}

static void chosen(const char *asked, const char *name, const char *reason)
{
    struct err e = ERR_INIT;
    struct machine_facts facts = {0};
    const struct tier_wish wish = {.tier = asked};
    int result = tier_facts(dir, &wish, &facts, &e);
    ok(result == 0 && str_eq(facts.driver->name, name), "%s (%s)", name, e.msg);
    is_str(facts.reason, reason, "and why");
}

static void refused(const char *asked, enum err_code code, const char *why)
{
    struct err e = ERR_INIT;
    struct machine_facts facts = {0};
    const struct tier_wish wish = {.tier = asked};
    ok(tier_facts(dir, &wish, &facts, &e) < 0 && e.code == code, "no machine in tier %s",
       asked ? asked : "auto");
    is_str(e.msg, why, "and why");
}

static void test_auto(void)
{
    set(TIER_AUTO, NULL);
    template_names("microvm");
    host(RANK_HARDWARE, true, RANK_SENTRY);
    sentry_looks = 0;
    chosen(NULL, "microvm", "the guest kernel boots under KVM");
    ok(sentry_looks == 0, "nothing better is looked for");
    host(RANK_EMULATED, true, RANK_SENTRY);
    chosen(NULL, "gvisor", "KVM: the kernel did not boot under it");
    host(RANK_EMULATED, true, RANK_NONE);
    chosen(NULL, "microvm",
           "KVM: the kernel did not boot under it; gVisor does not work on this host");
    host(RANK_EMULATED, false, RANK_NONE);
    chosen(TIER_AUTO, "microvm", "KVM: the kernel did not boot under it; runsc is not installed");
    host(RANK_NONE, true, RANK_SENTRY);
    chosen(NULL, "gvisor", "QEMU is missing");
    host(RANK_NONE, false, RANK_NONE);
    refused(NULL, ERR_NOT_FOUND, "QEMU is missing; runsc is not installed");
}

static void test_a_template_of_a_driver_without_ranks(void)
{
    set(TIER_AUTO, NULL);
    template_names("none");
    host(RANK_HARDWARE, true, RANK_SENTRY);
    chosen(NULL, "none", "");
    template_names("microvm");
}

// A size that gVisor cannot give is no reason to refuse a sandbox that nobody wants under gVisor.
static void test_a_size(void)
{
    struct err e = ERR_INIT;
    struct machine_facts facts = {0};
    struct tier_wish wish = {.size = {.cpus = 4}};
    set(TIER_AUTO, NULL);
    host(RANK_EMULATED, true, RANK_SENTRY);
    ok(tier_facts(dir, &wish, &facts, &e) == 0 && facts.driver == &MACHINE, "%s", e.msg);
    is_str(facts.reason,
           "KVM: the kernel did not boot under it; driver 'gvisor' cannot give a sandbox another "
           "size than its template's",
           "and why");
    wish.size.cpus = 2; // as the template under gVisor
    ok(tier_facts(dir, &wish, &facts, &e) == 0 && facts.driver == &SENTRY, "%s", e.msg);
    wish = (struct tier_wish){.tier = "gvisor", .size = {.cpus = 4}};
    ok(tier_facts(dir, &wish, &facts, &e) == 0 && facts.driver == &SENTRY,
       "a tier that is asked for is taken, and the size refused later");
    ok(tier_facts(dir, NULL, &facts, NULL) == 0 && facts.driver == &SENTRY, "no wish, no error");
}

// A disk in memory is taken only where no other driver can give one.
static void test_a_disk_in_memory(void)
{
    struct err e = ERR_INIT;
    struct machine_facts facts = {0};
    const struct tier_wish wish = {.size = {.disk_mb = 4096}};
    SENTRY.can = DRIVER_SIZES | DRIVER_DISKS;
    SENTRY.disk_in_memory = disks_grow = true;
    set(TIER_AUTO, NULL);
    host(RANK_EMULATED, true, RANK_SENTRY);
    ok(tier_facts(dir, &wish, &facts, &e) == 0 && facts.driver == &MACHINE, "%s", e.msg);
    is_str(facts.reason,
           "KVM: the kernel did not boot under it; driver 'gvisor' keeps a sandbox's disk in "
           "memory",
           "and why");
    host(RANK_NONE, true, RANK_SENTRY);
    ok(tier_facts(dir, &wish, &facts, &e) == 0 && facts.driver == &SENTRY, "%s", e.msg);
    chosen(NULL, "gvisor", "QEMU is missing");
    SENTRY.can = 0;
    SENTRY.disk_in_memory = disks_grow = false;
}

static void test_asked(void)
{
    host(RANK_EMULATED, true, RANK_SENTRY);
    set(TIER_AUTO, NULL);
    chosen("microvm", "microvm", "");
    chosen("gvisor", "gvisor", "");
    refused("none", ERR_INVALID,
            "tier 'none' is not offered by this cubbyd; it offers: microvm, gvisor (its operator "
            "sets --tiers-allowed)");
    refused("qemu", ERR_INVALID,
            "there is no tier 'qemu'; choose one of: auto, microvm, gvisor, none");
    set("microvm", NULL);
    chosen(NULL, "microvm", "");
    refused("gvisor", ERR_INVALID,
            "tier 'gvisor' is not offered by this cubbyd; it offers: microvm (its operator sets "
            "--tiers-allowed)");
    set("microvm", "microvm,none");
    chosen("none", "none", "");
    set(TIER_AUTO, "gvisor,none");
    chosen(NULL, "gvisor", "");
    host(RANK_EMULATED, true, RANK_NONE);
    refused(NULL, ERR_PRECONDITION, "gVisor does not work on this host");
    set(TIER_AUTO, "none");
    refused(NULL, ERR_PRECONDITION, "tier auto can choose none of the allowed tiers");
}

static void wrong_options(const char *usual, const char *allowed, const char *why)
{
    struct err e = ERR_INIT;
    ok(tiers_set(usual, allowed, &e) < 0 && e.code == ERR_INVALID, "--tier %s --tiers-allowed %s",
       usual, allowed ? allowed : "-");
    is_str(e.msg, why, "and why");
}

static void test_options(void)
{
    wrong_options("qemu", "gvisor",
                  "--tier: there is no tier 'qemu'; choose one of: auto, microvm, gvisor, none");
    wrong_options(
        "auto", "gvisor,",
        "--tiers-allowed: there is no tier ''; choose one of: auto, microvm, gvisor, none");
    wrong_options("auto", "auto",
                  "--tiers-allowed: auto is not a tier; give the names of the allowed tiers");
    wrong_options("microvm", "gvisor", "--tier microvm is not among --tiers-allowed gvisor");
}

// A tier that shares the host's kernel is never taken unless the operator's list has it.
static void test_a_tier_that_must_be_allowed(void)
{
    BARE.must_be_allowed = true;
    wrong_options("none", NULL,
                  "--tier none shares the host's kernel with its sandboxes; if you trust what runs "
                  "in them, say so with --tiers-allowed none");
    wrong_options("none", "gvisor",
                  "--tier none shares the host's kernel with its sandboxes; if you trust what runs "
                  "in them, say so with --tiers-allowed none");
    set("none", "none");
    chosen(NULL, "none", "");
    set(TIER_AUTO, NULL);
    template_names("none");
    refused(NULL, ERR_INVALID,
            "tier 'none' is not offered by this cubbyd; it offers: microvm, gvisor (its operator "
            "sets --tiers-allowed)");
    set(TIER_AUTO, "gvisor,none");
    chosen(NULL, "none", "");
    template_names("microvm");
    BARE.must_be_allowed = false;
}

// tiers: those of the caller's key. NULL as a name: the key may not have the tier.
static void for_key(const char *tiers, const char *asked, const char *name)
{
    struct err e = ERR_INIT;
    struct machine_facts facts = {0};
    const struct tier_wish wish = {.tier = asked, .tiers_of_key = tiers};
    int result = tier_facts(dir, &wish, &facts, &e);
    if (name)
        ok(result == 0 && str_eq(facts.driver->name, name), "key \"%s\" gets %s (%s)", tiers, name,
           e.msg);
    else
        ok(result < 0 && e.code == ERR_DENIED && strstr(e.msg, "is not for this API key"),
           "key \"%s\" does not get %s (%s)", tiers, asked ? asked : "the usual tier", e.msg);
}

static void test_the_tiers_of_a_key(void)
{
    struct err e = ERR_INIT;
    BARE.must_be_allowed = true;
    template_names("microvm");
    host(RANK_HARDWARE, true, RANK_SENTRY);
    set(TIER_AUTO, "microvm,gvisor,none");
    for_key("", NULL, "microvm");
    for_key("", "none", NULL);
    for_key("none", "none", "none");
    for_key("gvisor,none", "none", "none");
    for_key("gvisor,none", "microvm", NULL);
    for_key("gvisor,none", NULL, "gvisor");
    for_key("gvisor", "none", NULL);
    for_key("non", "none", NULL);
    for_key("nonesuch", "none", NULL);
    set("none", "none");
    for_key("", NULL, NULL);
    for_key("none", NULL, "none");
    template_names("none");
    set(TIER_AUTO, "microvm,none");
    for_key("", NULL, NULL);
    for_key("none", NULL, "none");
    const struct tier_wish wish = {.tiers_of_key = "gvisor"};
    ok(tier_check_snapshot("snap-1", &MACHINE, &wish, &e) < 0 && e.code == ERR_DENIED,
       "nor a snapshot of another tier");
    template_names("microvm");
    BARE.must_be_allowed = false;
}

static void snapshot(const struct driver *driver, const char *asked, const char *why)
{
    struct err e = ERR_INIT;
    const struct tier_wish wish = {.tier = asked};
    int result = tier_check_snapshot("snap-1", driver, &wish, &e);
    ok(result == (*why ? -1 : 0), "a snapshot of %s in tier %s", driver->name, asked ? asked : "-");
    is_str(e.msg, why, "and why");
}

static void test_snapshots(void)
{
    set("microvm", NULL);
    snapshot(&SENTRY, NULL, "");
    snapshot(&SENTRY, "gvisor", "");
    snapshot(&SENTRY, TIER_AUTO, "");
    snapshot(&SENTRY, "microvm",
             "snapshot 'snap-1' is of tier gvisor and cannot be restored in tier microvm; leave "
             "the tier out");
    set("microvm", "microvm");
    snapshot(&SENTRY, NULL,
             "tier 'gvisor' is not offered by this cubbyd; it offers: microvm (its operator sets "
             "--tiers-allowed)");
}

int main(void)
{
    ok(mkdtemp(dir) != NULL, "a template's directory");
    test_auto();
    test_a_template_of_a_driver_without_ranks();
    test_a_size();
    test_a_disk_in_memory();
    test_asked();
    test_options();
    test_a_tier_that_must_be_allowed();
    test_the_tiers_of_a_key();
    test_snapshots();
    dir_remove(dir, NULL);
    return tap_done();
}
