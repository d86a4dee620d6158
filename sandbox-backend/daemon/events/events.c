// SPDX-License-Identifier: Apache-2.0
// The lifecycle of sandboxes as events: the event log.
#include "sandbox-backend/daemon/events/events.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"

#define TEAM "cubby" // without an API key

static const char *const NAMES[] = {
    [EVENT_CREATED] = "sandbox.lifecycle.created",
    [EVENT_UPDATED] = "sandbox.lifecycle.updated",
    [EVENT_PAUSED] = "sandbox.lifecycle.paused",
    [EVENT_RESUMED] = "sandbox.lifecycle.resumed",
    [EVENT_CHECKPOINTED] = "sandbox.lifecycle.checkpointed",
    [EVENT_KILLED] = "sandbox.lifecycle.killed",
};

enum event_type event_type_of(const char *name)
{
    enum event_type type = EVENT_CREATED;
    while (type < EVENT_TYPES && !str_eq(NAMES[type], name))
        type++;
    return type;
}

const char *event_type_name(enum event_type type)
{
    return NAMES[type];
}

int event_types_add(const char *names, unsigned *types, struct err *e)
{
    char *text auto_free = xstrdup(names);
    char *at = text;
    for (char *name; (name = strsep(&at, ","));) {
        enum event_type type = event_type_of(name);
        if (type == EVENT_TYPES)
            return err_set(e, ERR_INVALID,
                           "\"%.60s\" is not an event; the events are sandbox.lifecycle.created, "
                           ".updated, .paused, .resumed, .checkpointed and .killed",
                           name);
        *types |= 1u << type;
    }
    return 0;
}

const char *event_team(const char *owner)
{
    return owner ? owner : TEAM;
}

// ---- the event log
static void open_log(struct events *ev)
{
    struct stat st;
    ev->fd = open(ev->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    ev->bytes = ev->fd >= 0 && fstat(ev->fd, &st) == 0 ? st.st_size : 0;
    if (ev->fd < 0)
        log_warn("events.open", "path=%s error=\"%s\"", ev->path, strerror(errno));
}

int events_open(struct events *ev, uv_loop_t *loop, const char *home,
                const struct fetch_guard *guard, struct err *e)
{
    ev->path = home_path(home, "events.jsonl");
    ev->older = home_path(home, "events.1.jsonl");
    open_log(ev);
    readings_init(&ev->readings, loop);
    return webhooks_open(&ev->webhooks, loop, home, guard, e);
}

void events_close(struct events *ev)
{
    webhooks_close(&ev->webhooks);
}

void events_fini(struct events *ev)
{
    if (!ev->path)
        return;
    mem_close_fd(&ev->fd);
    webhooks_fini(&ev->webhooks);
    free(ev->path);
    free(ev->older);
}

static void rotate(struct events *ev)
{
    if (rename(ev->path, ev->older) < 0)
        log_warn("events.rotate", "error=\"%s\"", strerror(errno));
    mem_close_fd(&ev->fd);
    open_log(ev);
}

// A line that was written in part (the disk is full) ends where the next one begins.
static void append(struct events *ev, const char *line, size_t len)
{
    struct err e = ERR_INIT;
    if (ev->bytes > 0 && ev->bytes + (int64_t)len > EVENTS_FILE_BYTES)
        rotate(ev);
    if (ev->fd >= 0 && fd_write_all(ev->fd, line, len, &e) < 0)
        log_warn("events.append", "error=\"%s\"", e.msg);
    ev->bytes += (int64_t)len;
}

// E2B's event.
static json_t *view(const struct event *event)
{
    char at[CLOCK_RFC3339_BYTES];
    char *id auto_free = random_uuid();
    clock_rfc3339(at, clock_wall_ns());
    return json_pack("{s:s, s:s, s:s, s:s, s:O, s:s?, s:s, s:s, s:s, s:s}", "version", "v2", "id",
                     id, "type", NAMES[event->type], "timestamp", at, "eventData", event->data,
                     "sandboxBuildId", event->build, "sandboxExecutionId", event->sandbox,
                     "sandboxId", event->sandbox, "sandboxTeamId", event_team(event->owner),
                     "sandboxTemplateId", event->template);
}

// Write the event to the event log. `json` is changed.
static void log_event(struct events *ev, const struct event *event, json_t *json)
{
    struct buf line auto_buf = BUF_INIT, metadata auto_buf = BUF_INIT;
    const json_t *its = json_object_get(event->data, "sandbox_metadata");
    json_t *data = json_copy(event->data);
    json_to_buf(&metadata, its);
    if (metadata.len > EVENTS_METADATA_BYTES)
        json_object_set_new(data, "sandbox_metadata", json_object());
    json_object_set_new(json, "eventData", data);
    if (event->owner)
        json_object_set_new(json, "owner", json_string(event->owner));
    buf_addc(&line, '\n'); // at its beginning, so that half a line spoils no other
    json_to_buf(&line, json);
    append(ev, line.data, line.len);
}

void events_add(struct events *ev, const struct event *event)
{
    struct buf body auto_buf = BUF_INIT;
    json_t *json = view(event);
    json_to_buf(&body, json);
    webhooks_send(&ev->webhooks, event->type, event->owner, body.data, body.len);
    if (!event->unlogged)
        log_event(ev, event, json);
    json_decref(json);
}

// ---- reading

// Return whether the event is wanted, and take the members off that E2B's has not.
static bool is_wanted(const struct events_query *q, json_t *event, const char *since)
{
    const char *owner = json_string_value(json_object_get(event, "owner"));
    const char *at = json_string_value(json_object_get(event, "timestamp"));
    const char *type = json_string_value(json_object_get(event, "type"));
    const char *sandbox = json_string_value(json_object_get(event, "sandboxId"));
    bool wanted =
        at && type && sandbox && strcmp(at, since) >= 0 && (!q->owner || str_eq(owner, q->owner)) &&
        (!q->sandbox || str_eq(sandbox, q->sandbox)) && q->types & 1u << event_type_of(type);
    json_object_del(event, "owner");
    return wanted;
}

// Read the older file, unless it is the same one: it became the older one in between.
static void read_both(const struct events_query *q, struct buf *out)
{
    struct buf newest auto_buf = BUF_INIT;
    struct file_stamp first, second;
    file_stamp_get(q->path, &first);
    file_read(q->path, EVENTS_FILE_BYTES * 2, &newest, NULL);
    file_stamp_get(q->older, &second);
    if (first.inode != second.inode)
        file_read(q->older, EVENTS_FILE_BYTES * 2, out, NULL);
    buf_addc(out, '\n');
    buf_add(out, newest.data, newest.len);
}

// A line begins where `text + at` points; the lines' ends are cut to strings.
static size_t *cut_lines(struct buf *text, size_t *count)
{
    size_t room = 0, *lines = NULL;
    for (char *at = text->data, *end; at && *at; at = end + 1) {
        end = at + strcspn(at, "\n");
        bool last = !*end;
        *end = '\0';
        if (*count == room)
            lines = xrealloc(lines, (room = room ? room * 2 : 1024) * sizeof *lines);
        lines[(*count)++] = (size_t)(at - text->data);
        if (last)
            break;
    }
    return lines;
}

static json_t *parse(const struct events_query *q, const char *line)
{
    // Most lines are of other sandboxes and owners, and a search is cheaper than a parse.
    bool fits = (!q->sandbox || strstr(line, q->sandbox)) && (!q->owner || strstr(line, q->owner));
    return *line && fits ? json_parse(line, strlen(line), NULL) : NULL;
}

void events_each(const struct events_query *q, events_cb *each, void *ctx)
{
    char since[CLOCK_RFC3339_BYTES];
    struct buf text auto_buf = BUF_INIT;
    size_t count = 0;
    bool more = true;
    clock_rfc3339(since, clock_wall_ns() - EVENTS_AGE_NS);
    read_both(q, &text);
    buf_str(&text);
    size_t *lines auto_free = cut_lines(&text, &count);
    for (size_t i = 0; i < count && more; i++) {
        json_t *event = parse(q, text.data + lines[q->ascending ? i : count - 1 - i]);
        if (event && is_wanted(q, event, since))
            more = each(event, ctx);
        json_decref(event);
    }
}

struct page {
    const struct events_query *q;
    json_t *list;
    int64_t skipped;
};

static bool add_to_page(json_t *event, void *ctx)
{
    struct page *page = ctx;
    if (page->skipped++ >= page->q->offset)
        json_array_append(page->list, event);
    return (int64_t)json_array_size(page->list) < page->q->limit;
}

json_t *events_read(const struct events_query *q)
{
    struct page page = {.q = q, .list = json_array()};
    events_each(q, add_to_page, &page);
    return page.list;
}
