// SPDX-License-Identifier: Apache-2.0
// A change of a running sandbox's network.
#include "sandbox-backend/daemon/sandbox/network_change.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/daemon/sandbox/guest.h"
#include "sandbox-backend/daemon/sandbox/lifecycle.h"
#include "sandbox-backend/daemon/sandbox/record.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/daemon/secrets/secrets.h"
#include "sandbox-backend/log/log.h"

#define TRUST_MS 30000

struct network_change {
    struct sandbox *sb; // borrowed; the machine and the guest call back before it is gone
    struct net_policy policy;
    json_t *secrets; // owned; NULL: none
    bool sets_egress;
    struct guest_call *trust; // step 1
    network_change_cb cb;
    void *ctx;
};

static void send_authority(struct network_change *n);
static void on_trust(int status, const char *text, const struct err *e, void *ctx);
static int give_to_machine(struct network_change *n, struct err *e);
static void on_set(struct machine *m, const struct err *e, void *ctx);
static void finish(struct network_change *n, const struct err *e);
static void change_free(struct network_change *n);
static void replace_waiting(struct sandbox *sb);
static void stop_waiting(struct network_change *n, const struct err *e);

int network_change_start(struct sandbox *sb, struct net_policy *policy, json_t *secrets,
                         network_change_cb cb, void *ctx, struct err *e)
{
    struct network_change *n = xmalloc(sizeof *n);
    *n = (struct network_change){
        .sb = sb, .policy = *policy, .secrets = secrets, .cb = cb, .ctx = ctx};
    *policy = (struct net_policy){0};
    replace_waiting(sb);
    const json_t *before = network_change_secrets(sb);
    n->sets_egress = secrets != before;
    if (n->sets_egress)
        sb->network_change = n;
    if (n->sets_egress && !before)
        send_authority(n);
    else if (give_to_machine(n, e) < 0) {
        change_free(n);
        return -1;
    }
    return 0;
}

// The guest decides how long it takes to answer /init. So a change that waits for it must not hold
// up a later one, nor undo it.
static void replace_waiting(struct sandbox *sb)
{
    struct network_change *earlier = sb->network_change;
    struct err e = ERR_INIT;
    if (!earlier || !earlier->trust)
        return;
    err_set(&e, ERR_CONFLICT, "a later request replaced this change before the guest took it");
    sb->network_change = NULL;
    stop_waiting(earlier, &e);
}

json_t *network_change_secrets(const struct sandbox *sb)
{
    const struct network_change *n = sb->network_change;
    return n && !n->trust ? n->secrets : sb->secrets;
}

// ---- 1. the guest trusts the authority

static void send_authority(struct network_change *n)
{
    char now[CLOCK_RFC3339_BYTES];
    json_t *env = json_object();
    clock_rfc3339(now, clock_wall_ns());
    secrets_add_bundles(env);
    json_t *body = json_pack("{s:s, s:s*, s:s, s:o, s:b}", "timestamp", now, "accessToken",
                             n->sb->token, "caBundle", secrets_certificate(n->secrets), "envVars",
                             env, "inheritEnvVars", true);
    char *text auto_free = json_to_string(body);
    json_decref(body);
    n->trust = guest_call_start(n->sb, "POST", "/init", text, TRUST_MS, on_trust, n);
}

static void on_trust(int status, const char *text, const struct err *e, void *ctx)
{
    struct network_change *n = ctx;
    struct err why = ERR_INIT;
    n->trust = NULL;
    if (e)
        why = *e;
    else if (status != 204)
        err_set(&why, ERR_INTERNAL, "envd answered /init with HTTP status %d: %.200s", status,
                text);
    if (err_is(&why)) {
        err_wrap(&why, "tell the guest the certificate authority of the sandbox");
        finish(n, &why);
    } else if (give_to_machine(n, &why) < 0) {
        finish(n, &why);
    }
}

// ---- 2. the machine

// A policy that closes the network must not fail because a secret is gone. Return true, and clear
// `e`, if the policy closes it: then it is set alone, and the rules stay.
static bool close_alone(struct network_change *n, struct err *e)
{
    if (!net_policy_is_closed(&n->policy))
        return false;
    journal_add(&n->sb->journal, JOURNAL_WARN, "the network is closed, but its rules stay: %s",
                e->msg);
    if (n->sb->network_change == n)
        n->sb->network_change = NULL;
    n->sets_egress = false;
    *e = (struct err)ERR_INIT;
    return true;
}

static int give_to_machine(struct network_change *n, struct err *e)
{
    struct sandbox *sb = n->sb;
    char *egress = NULL;
    if (sb->state != SANDBOX_RUNNING || !sb->machine)
        return err_set(e, ERR_CONFLICT, "the sandbox is no longer running; try again when it runs");
    if (n->sets_egress && sandbox_egress_of(sb, n->secrets, &egress, e) < 0 && !close_alone(n, e))
        return -1;
    const struct machine_egress machine_egress = {egress, secrets_need_hands(n->secrets),
                                                  secrets_need_dials(n->secrets)};
    if (n->sets_egress)
        machine_set_egress(sb->machine, &n->policy, &machine_egress, on_set, n);
    else
        machine_set_policy(sb->machine, &n->policy, on_set, n);
    secrets_wipe(&egress);
    return 0;
}

// ---- 3. the sandbox and its record

// Return whether a failure came from netd or egress, and not from the end of the machine.
static bool is_of_netd(const struct err *e)
{
    return e->code == ERR_UNIMPLEMENTED || e->code == ERR_TIMEOUT || e->code == ERR_INTERNAL;
}

// The policy of the record was sent again, because netd may have taken the new one.
static void on_restored(struct machine *m, const struct err *e, void *ctx)
{
    (void)m, (void)ctx;
    if (e)
        log_warn("network.restore", "error=\"%s\"", e->msg);
}

static void on_set(struct machine *m, const struct err *e, void *ctx)
{
    struct network_change *n = ctx;
    struct sandbox *sb = n->sb;
    if (!e) {
        net_policy_fini(&sb->policy);
        sb->policy = n->policy;
        n->policy = (struct net_policy){0};
        if (n->sets_egress) { // else another change may have replaced them meanwhile
            json_decref(sb->secrets);
            sb->secrets = json_incref(n->secrets);
        }
        record_write_or_log(sb);
        journal_add(&sb->journal, JOURNAL_INFO, "the network's rules were replaced");
        lifecycle_tell_network(sb);
    }
    if (n->sets_egress) // after a failure, netd may have either egress, and either policy
        sb->network_unknown = e != NULL;
    if (n->sets_egress && e && is_of_netd(e) && sb->state == SANDBOX_RUNNING)
        machine_set_policy(m, &sb->policy, on_restored, NULL);
    finish(n, e);
}

static void change_free(struct network_change *n)
{
    if (n->sb->network_change == n)
        n->sb->network_change = NULL;
    net_policy_fini(&n->policy);
    json_decref(n->secrets);
    free(n);
}

static void finish(struct network_change *n, const struct err *e)
{
    network_change_cb cb = n->cb;
    void *ctx = n->ctx;
    change_free(n);
    cb(e, ctx);
}

static void stop_waiting(struct network_change *n, const struct err *e)
{
    guest_call_cancel(steal(&n->trust));
    finish(n, e);
}

void network_change_cancel(struct sandbox *sb)
{
    struct err e = ERR_INIT;
    err_set(&e, ERR_GONE, "the sandbox ended");
    if (sb->network_change && sb->network_change->trust) // else the machine calls back
        stop_waiting(sb->network_change, &e);
}
