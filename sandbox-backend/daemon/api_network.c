// SPDX-License-Identifier: Apache-2.0
// PUT /sandboxes/{id}/network: all of the egress settings at once; what is left out is cleared.
// GET: what they are, and what happened under them.
#include <stdlib.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/api.h"
#include "sandbox-backend/daemon/api_change.h"
#include "sandbox-backend/daemon/network_body.h"
#include "sandbox-backend/daemon/network_view.h"
#include "sandbox-backend/daemon/record.h"
#include "sandbox-backend/daemon/reply.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/daemon/store.h"

struct pending_network {
    struct http_request *req; // NULL once the client has gone
    struct sandbox *sb;       // the machine calls before it is gone
    struct net_policy policy;
};

static void on_client_gone(void *ctx)
{
    struct pending_network *p = ctx;
    p->req = NULL;
}

static void on_set(struct machine *m, const struct err *e, void *ctx)
{
    (void)m;
    struct pending_network *p = ctx;
    struct http_request *req = p->req;
    if (!e) {
        net_policy_fini(&p->sb->policy);
        p->sb->policy = p->policy;
        record_write_or_log(p->sb);
        journal_add(&p->sb->journal, JOURNAL_INFO, "the network's rules were replaced");
    } else {
        net_policy_fini(&p->policy);
    }
    free(p);
    if (req && e)
        reply_error(req, e->code == ERR_CONFLICT ? 409 : 500, NULL,
                    "the network's rules could not be replaced: %s", e->msg);
    else if (req)
        reply_empty(req);
}

static void apply_network(struct store *store, struct http_request *req, struct sandbox *sb,
                          const json_t *body)
{
    struct err e = ERR_INIT;
    struct net_policy policy;
    bool internet;
    if (json_get_bool(body, "allow_internet_access", &internet, true, &e) < 0 ||
        network_body_policy(body, "", internet, store->limits.private_network, &policy, &e) < 0) {
        reply_err(req, NULL, &e);
        return;
    }
    if (!api_is_running(req, sb)) {
        net_policy_fini(&policy);
        return;
    }
    struct pending_network *p = xmalloc(sizeof *p);
    *p = (struct pending_network){.req = req, .sb = sb, .policy = policy};
    http_request_on_close(req, on_client_gone, p);
    machine_set_policy(sb->machine, &p->policy, on_set, p);
}

void api_network(struct store *store, struct http_request *req, const char *id)
{
    static const char HINT[] =
        "the body is missing: send the policy, such as {\"mode\": \"none\"}; "
        "{} opens the whole public internet";
    api_change_told(store, req, id, HINT, apply_network);
}

void api_network_get(struct store *store, struct http_request *req, const char *id)
{
    struct sandbox *sb = api_find(store, req, id);
    if (!sb)
        return; // answered, and the request is gone
    const char *since = http_request_query(req, "since", NULL);
    int64_t number = 0;
    if (since && !str_to_int(since, 0, INT64_MAX, &number)) {
        reply_error(req, 400, NULL, "since must be the number of a refusal (\"sequence\")");
        return;
    }
    reply_json(req, 200, network_view(sb, number));
}
