// SPDX-License-Identifier: Apache-2.0
// The way back of an array of messages.
#include "mcp-server/batch.h"

#include "sandbox-backend/base/mem.h"

struct batch {
    struct outlet outlet;  // first
    struct outlet *parent; // borrowed
    json_t *answers;
    int holders;
};

static void on_send(struct outlet *o, const json_t *message)
{
    struct batch *b = container_of(o, struct batch, outlet);
    if (json_object_get(message, "method"))
        b->parent->send(b->parent, message);
    else
        json_array_append_new(b->answers, json_deep_copy(message));
}

static bool on_is_busy(struct outlet *o)
{
    struct batch *b = container_of(o, struct batch, outlet);
    return b->parent->is_busy(b->parent);
}

struct batch *batch_new(struct outlet *parent)
{
    struct batch *b = xmalloc(sizeof *b);
    *b = (struct batch){.outlet = {.send = on_send, .is_busy = on_is_busy},
                        .parent = parent,
                        .answers = json_array(),
                        .holders = 1};
    return b;
}

struct outlet *batch_outlet(struct batch *b)
{
    return &b->outlet;
}

struct batch *batch_of(struct outlet *o)
{
    return o->send == on_send ? container_of(o, struct batch, outlet) : NULL;
}

void batch_hold(struct batch *b)
{
    b->holders++;
}

void batch_release(struct batch *b)
{
    if (--b->holders > 0)
        return;
    if (json_array_size(b->answers) > 0)
        b->parent->send(b->parent, b->answers);
    json_decref(b->answers);
    free(b);
}
