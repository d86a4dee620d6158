// SPDX-License-Identifier: Apache-2.0
// The end times of sandboxes on a server that ends none by itself.

#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/client/client.h"
#include "sandbox-backend/client/client_internal.h"
#include "sandbox-backend/client/retry.h"
#include "sandbox-backend/log/log.h"

#define AGAIN_MS 60000
#define LATEST_S (365LL * 24 * 3600) // a longer time to live counts as this one

struct expiry {
    struct client *client; // borrowed
    struct expiry *next;
    struct delay *delay; // borrowed; NULL while the sandbox is paused
    bool is_held;
    char id[ACCESS_ID_MAX + 1];
};

static struct expiry **find(struct client *c, const char *id)
{
    struct expiry **at = &c->expiries;
    while (*at && strcmp((*at)->id, id) != 0)
        at = &(*at)->next;
    return at;
}

static void drop(struct expiry **at)
{
    struct expiry *x = *at;
    *at = x->next;
    delay_cancel(x->delay);
    free(x);
}

static void on_killed(const struct err *e, void *ctx)
{
    (void)ctx;
    if (e)
        log_warn("client.expiry", "error=%s", e->msg);
}

// client_kill forgets an ended sandbox. If the server does not answer, the kill is repeated later.
static void on_over(void *ctx)
{
    struct expiry *x = ctx;
    x->delay = delay_start(x->client->loop, AGAIN_MS, on_over, x);
    client_kill(x->client, x->id, on_killed, NULL);
}

static struct expiry *add(struct client *c, const char *id)
{
    int count = 0;
    for (const struct expiry *x = c->expiries; x; x = x->next)
        count++;
    if (count >= EXPIRY_MAX || strlen(id) > ACCESS_ID_MAX)
        return NULL;
    struct expiry *x = xcalloc(1, sizeof *x);
    memcpy(x->id, id, strlen(id) + 1);
    x->client = c;
    x->next = c->expiries;
    c->expiries = x;
    return x;
}

bool expiry_set(struct client *c, const char *id, int64_t seconds)
{
    struct expiry *x = *find(c, id);
    if (!x && !(x = add(c, id)))
        return false;
    if (x->is_held)
        return true;
    delay_cancel(x->delay);
    x->delay = delay_start(c->loop, (uint64_t)MIN(MAX(seconds, 0), LATEST_S) * 1000, on_over, x);
    return true;
}

void expiry_hold(struct client *c, const char *id)
{
    struct expiry *x = *find(c, id);
    if (!x)
        return;
    delay_cancel(x->delay);
    x->delay = NULL;
    x->is_held = true;
}

void expiry_forget(struct client *c, const char *id)
{
    struct expiry **at = find(c, id);
    if (*at)
        drop(at);
}

void expiry_forget_all(struct client *c)
{
    while (c->expiries)
        drop(&c->expiries);
}
