// SPDX-License-Identifier: Apache-2.0
// The way back of an array of messages.
#include "mcp-server/protocol/batch.h"

#include "sandbox-backend/base/mem.h"

struct batch {
    struct outlet outlet;
    struct outlet *parent; // borrowed
    json_t *answers;
    size_t open; // members that have not ended
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

static void on_end(struct outlet *o)
{
    struct batch *b = container_of(o, struct batch, outlet);
    if (--b->open > 0)
        return;
    struct outlet *parent = b->parent;
    if (json_array_size(b->answers) > 0)
        parent->send(parent, b->answers);
    json_decref(b->answers);
    free(b);
    outlet_end(parent);
}

struct outlet *batch_new(struct outlet *parent, size_t members)
{
    struct batch *b = xmalloc(sizeof *b);
    *b = (struct batch){
        .outlet = {.send = on_send,
                   .is_busy = on_is_busy,
                   .end = on_end,
                   // No let_go: polling came with 2025-11-25, when arrays had gone.
                   .is_one_message = parent->is_one_message},
        .parent = parent,
        .answers = json_array(),
        .open = members,
    };
    return &b->outlet;
}
