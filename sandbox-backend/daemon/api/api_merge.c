// SPDX-License-Identifier: Apache-2.0
// Answers that are the sum of all nodes of a fleet.
#include "sandbox-backend/daemon/api/api_merge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/http/reply.h"
#include "sandbox-backend/daemon/peers/peers.h"
#include "sandbox-backend/daemon/sandbox/store.h"

struct merge {
    struct http_request *req;
    json_t *ours; // owned
    void (*add)(struct merge *m, json_t *theirs);
    struct api_merged_list how; // of a list
    const char *name;           // static; of the others
    bool is_list;
};

// ---- 1. lists in an order
struct entry {
    json_t *value; // borrowed
    int64_t ns;
    const char *id; // borrowed
};

static struct entry entry_of(const struct merge *m, json_t *value)
{
    struct entry e = {.value = value, .id = json_string_value(json_object_get(value, m->how.id))};
    const char *time = json_string_value(json_object_get(value, m->how.time));
    if (!e.id)
        e.id = "";
    if (!time || !clock_parse_rfc3339(time, &e.ns))
        e.ns = 0;
    return e;
}

static int by_page(const void *a, const void *b, void *page)
{
    const struct entry *left = a, *right = b;
    return page_is_before(page, left->ns, left->id, right->ns, right->id) ? -1 : 1;
}

// While a sandbox is moved, two nodes may have it for a moment. In the order of a page, the two are
// neighbours. Return how many entries are left.
static size_t drop_twins(struct entry *all, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (!kept || strcmp(all[kept - 1].id, all[i].id) != 0)
            all[kept++] = all[i];
    return kept;
}

static void reply_list(struct merge *m)
{
    size_t count = json_array_size(m->ours);
    struct entry *all auto_free = xcalloc(count + 1, sizeof *all);
    json_t *shown = json_array();
    for (size_t i = 0; i < count; i++)
        all[i] = entry_of(m, json_array_get(m->ours, i));
    qsort_r(all, count, sizeof *all, by_page, &m->how.page);
    count = drop_twins(all, count);
    size_t most = (uint64_t)m->how.page.limit < count ? (size_t)m->how.page.limit : count;
    for (size_t i = 0; i < most; i++)
        json_array_append(shown, all[i].value);
    if (most && (m->how.more || most < count))
        page_tell_next(m->req, all[most - 1].ns, all[most - 1].id);
    if (m->how.running >= 0) {
        char total[24];
        snprintf(total, sizeof total, "%lld", (long long)m->how.running);
        http_response_header(m->req, "X-Total-Running", total);
    }
    reply_json(m->req, 200, shown);
}

static void add_list(struct merge *m, json_t *theirs)
{
    json_array_extend(m->ours, theirs); // fails for another type, which then adds nothing
}

// ---- 2. the others
static bool has_named(const struct merge *m, const char *name)
{
    size_t i;
    json_t *one;
    json_array_foreach (m->ours, i, one)
        if (str_eq(json_string_value(json_object_get(one, m->name)), name))
            return true;
    return false;
}

static void add_named(struct merge *m, json_t *theirs)
{
    size_t i;
    json_t *one;
    json_array_foreach (theirs, i, one) {
        const char *name = json_string_value(json_object_get(one, m->name));
        if (name && !has_named(m, name))
            json_array_append(m->ours, one);
    }
}

static void add_member(struct merge *m, json_t *theirs)
{
    json_t *into = json_object_get(m->ours, m->name);
    json_t *from = json_object_get(theirs, m->name);
    if (json_is_array(into))
        json_array_extend(into, from);
    else
        json_object_update(into, from);
}

// ---- 3. asking
static void answer(struct merge *m)
{
    if (m->is_list)
        reply_list(m);
    else
        reply_json(m->req, 200, json_incref(m->ours));
    json_decref(m->ours);
    free(m);
}

static void on_sum(const struct peers_sum *sum, void *ctx)
{
    struct merge *m = ctx;
    size_t i;
    json_t *theirs;
    json_array_foreach (sum->bodies, i, theirs)
        m->add(m, theirs);
    m->how.more = m->how.more || sum->more;
    if (m->how.running >= 0)
        m->how.running += sum->running;
    if (*sum->missing)
        http_response_header(m->req, PEERS_MISSING, sum->missing);
    answer(m);
}

static void on_gone(void *ctx)
{
    struct merge *m = ctx;
    json_decref(m->ours);
    free(m);
}

static void start(const struct store *store, struct merge what)
{
    struct merge *m = xmalloc(sizeof *m);
    *m = what;
    if (peers_asks(store->peers, m->req))
        peers_ask(store->peers, m->req, on_sum, on_gone, m);
    else
        answer(m);
}

void api_merge_list(const struct store *store, struct http_request *req, json_t *list,
                    const struct api_merged_list *how)
{
    start(store,
          (struct merge){.req = req, .ours = list, .add = add_list, .how = *how, .is_list = true});
}

void api_merge_named(const struct store *store, struct http_request *req, json_t *list,
                     const char *id)
{
    start(store, (struct merge){.req = req, .ours = list, .add = add_named, .name = id});
}

void api_merge_member(const struct store *store, struct http_request *req, json_t *object,
                      const char *name)
{
    start(store, (struct merge){.req = req, .ours = object, .add = add_member, .name = name});
}
