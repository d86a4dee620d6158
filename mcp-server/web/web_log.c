// SPDX-License-Identifier: Apache-2.0
// The events of one stream, kept so that they can be sent again.
#include "mcp-server/web/web_log.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"

static void drop_first(struct web_log *l)
{
    struct web_event *event = l->first;
    l->first = event->next;
    if (!l->first)
        l->last = NULL;
    l->bytes -= event->len;
    l->count--;
    free(event);
}

void web_log_add(struct web_log *l, unsigned number, const char *text, size_t len)
{
    struct web_event *event = xmalloc(sizeof *event + len);
    *event = (struct web_event){.number = number, .len = len};
    memcpy(event->text, text, len);
    if (l->last)
        l->last->next = event;
    else
        l->first = event;
    l->last = event;
    l->bytes += len;
    l->count++;
    while (l->first != event && (l->count > WEB_LOG_EVENTS || l->bytes > WEB_LOG_BYTES))
        drop_first(l);
}

const struct web_event *web_log_after(const struct web_log *l, unsigned number)
{
    const struct web_event *event = l->first;
    while (event && event->number <= number)
        event = event->next;
    return event;
}

void web_log_keep_last(struct web_log *l)
{
    while (l->first != l->last)
        drop_first(l);
}

void web_log_fini(struct web_log *l)
{
    while (l->first)
        drop_first(l);
}
