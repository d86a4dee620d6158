// SPDX-License-Identifier: Apache-2.0
// The lifecycle of sandboxes as events: the event log.
#include "sandbox-backend/daemon/events/events.h"

#include <dirent.h>
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
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"

#define TEAM       "cubby" // without an API key
#define NEWEST     "events.jsonl"
#define OLDER      "events.1.jsonl"
#define KEYS       "events" // the directory with those of the API keys
#define KEY_PREFIX "key-"   // a name may begin with "."
#define DROP_NS    (24LL * 3600 * 1000000000)
#define TIME       "\"timestamp\":\""

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

// Return the directory of an owner's log. New string.
static char *dir_of(const char *home, const char *owner)
{
    return owner ? str_printf("%s/" KEYS "/" KEY_PREFIX "%s", home, owner) : xstrdup(home);
}

// Call `each` for the directory of each API key that has a log.
static void each_key(const char *home, void (*each)(const char *dir, void *ctx), void *ctx)
{
    char *all auto_free = str_printf("%s/" KEYS, home);
    DIR *dir = opendir(all);
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        char *one auto_free = str_printf("%s/%s", all, entry->d_name);
        if (str_starts(entry->d_name, KEY_PREFIX))
            each(one, ctx);
    }
    if (dir)
        closedir(dir);
}

static void drop_old(const char *dir, void *ctx)
{
    const time_t *since = ctx;
    char *path auto_free = str_printf("%s/" NEWEST, dir);
    struct stat st;
    struct err e = ERR_INIT;
    if (stat(path, &st) == 0 && st.st_mtime < *since && dir_remove(dir, &e) < 0)
        log_warn("events.remove", "error=\"%s\"", e.msg);
}

static void drop_all_old(struct events *ev)
{
    ev->dropped_ns = clock_wall_ns();
    time_t since = (time_t)((ev->dropped_ns - EVENTS_AGE_NS) / 1000000000);
    each_key(ev->home, drop_old, &since);
}

bool events_has_log_of(const struct events *ev, const char *owner)
{
    char *dir auto_free = dir_of(ev->home, owner);
    return file_exists(dir);
}

int events_remove_of(const struct events *ev, const char *owner, struct err *e)
{
    char *dir auto_free = dir_of(ev->home, owner);
    return dir_remove(dir, e);
}

int events_open(struct events *ev, uv_loop_t *loop, const char *home,
                const struct fetch_guard *guard, struct err *e)
{
    ev->home = xstrdup(home);
    drop_all_old(ev);
    readings_init(&ev->readings, loop);
    return webhooks_open(&ev->webhooks, loop, home, guard, e);
}

void events_close(struct events *ev)
{
    webhooks_close(&ev->webhooks);
}

void events_fini(struct events *ev)
{
    if (!ev->home)
        return;
    webhooks_fini(&ev->webhooks);
    free(ev->home);
}

static int open_log(const char *path, struct err *e)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    return fd < 0 ? err_sys(e, errno, "open %s", path) : fd;
}

// Open the log that has room for `len` more bytes. Return the descriptor, or -1.
static int open_with_room(const char *dir, int64_t most, size_t len, struct err *e)
{
    char *path auto_free = str_printf("%s/" NEWEST, dir);
    char *older auto_free = str_printf("%s/" OLDER, dir);
    struct stat st;
    int fd auto_close = open_log(path, e);
    if (fd < 0 || fstat(fd, &st) < 0 || st.st_size == 0 || st.st_size + (int64_t)len <= most)
        return steal_fd(&fd);
    if (rename(path, older) < 0)
        return err_sys(e, errno, "rename %s", path);
    return open_log(path, e);
}

static void count_key(const char *dir, void *ctx)
{
    (void)dir;
    ++*(int *)ctx;
}

// Return whether the owner has files of its own.
static bool has_files(const struct events *ev, const char *owner)
{
    int keys = 0;
    if (!owner || events_has_log_of(ev, owner))
        return owner;
    each_key(ev->home, count_key, &keys);
    return keys < EVENTS_KEYS;
}

// A line that was written in part (the disk is full) ends where the next one begins.
static int append(const struct events *ev, const char *owner, const char *line, size_t len,
                  struct err *e)
{
    bool own = has_files(ev, owner);
    char *dir auto_free = dir_of(ev->home, own ? owner : NULL);
    if (own && dir_make(dir, 0700, e) < 0)
        return -1;
    int fd auto_close = open_with_room(dir, own ? EVENTS_KEY_BYTES : EVENTS_FILE_BYTES, len, e);
    return fd < 0 ? -1 : fd_write_all(fd, line, len, e);
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
static void log_event(const struct events *ev, const struct event *event, json_t *json)
{
    struct buf line auto_buf = BUF_INIT, metadata auto_buf = BUF_INIT;
    struct err e = ERR_INIT;
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
    if (append(ev, event->owner, line.data, line.len, &e) < 0)
        log_warn("events.append", "error=\"%s\"", e.msg);
}

void events_add(struct events *ev, const struct event *event)
{
    struct buf body auto_buf = BUF_INIT;
    json_t *json = view(event);
    json_to_buf(&body, json);
    webhooks_send(&ev->webhooks, event->type, event->owner, body.data, body.len);
    if (clock_wall_ns() - ev->dropped_ns > DROP_NS)
        drop_all_old(ev);
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

struct line {
    const char *text; // borrowed
    int64_t at_ns;    // 0: not needed
};

// The lines of one or several logs.
struct lines {
    struct buf text;
    struct line *all;
    size_t count;
    int logs; // that have any
};

// Add a log. Read the older file, unless it is the one that was just read.
static void add_log(const char *dir, void *ctx)
{
    struct lines *lines = ctx;
    char *path auto_free = str_printf("%s/" NEWEST, dir);
    char *older auto_free = str_printf("%s/" OLDER, dir);
    struct buf newest auto_buf = BUF_INIT;
    struct stat first = {0}, second;
    size_t before = lines->text.len;
    if (before >= EVENTS_READ_BYTES)
        return;
    int fd auto_close = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0 && fstat(fd, &first) == 0)
        fd_read_all(fd, EVENTS_FILE_BYTES * 2, &newest, NULL);
    if (stat(older, &second) == 0 && first.st_ino != second.st_ino)
        file_read(older, EVENTS_FILE_BYTES * 2, &lines->text, NULL);
    buf_addc(&lines->text, '\n');
    buf_add(&lines->text, newest.data, newest.len);
    lines->logs += lines->text.len - before > 1;
}

static int64_t time_of(const char *line)
{
    const char *at = strstr(line, TIME);
    char *text auto_free =
        at ? xstrndup(at + strlen(TIME), strcspn(at + strlen(TIME), "\"")) : NULL;
    int64_t ns = 0;
    return text && clock_parse_rfc3339(text, &ns) ? ns : 0;
}

// The lines of one log are in their order.
static int compare(const void *a, const void *b)
{
    const struct line *one = a, *other = b;
    if (one->at_ns != other->at_ns)
        return one->at_ns < other->at_ns ? -1 : 1;
    return one->text < other->text ? -1 : one->text > other->text;
}

// Cut the text to lines, and order the lines by time. The text does not change any more.
static void cut_lines(struct lines *lines)
{
    size_t room = 0;
    buf_str(&lines->text);
    for (char *at = lines->text.data, *end; at && *at; at = end + 1) {
        end = at + strcspn(at, "\n");
        bool last = !*end;
        *end = '\0';
        if (lines->count == room)
            lines->all = xrealloc(lines->all, (room = room ? room * 2 : 1024) * sizeof *lines->all);
        lines->all[lines->count++] =
            (struct line){.text = at, .at_ns = lines->logs > 1 ? time_of(at) : 0};
        if (last)
            break;
    }
    if (lines->logs > 1)
        qsort(lines->all, lines->count, sizeof *lines->all, compare);
}

// An older version wrote the events of all owners to one log.
static struct lines read_lines(const struct events_query *q)
{
    struct lines lines = {.text = BUF_INIT};
    char *own auto_free = dir_of(q->home, q->owner);
    add_log(q->home, &lines);
    if (q->owner)
        add_log(own, &lines);
    else
        each_key(q->home, add_log, &lines);
    cut_lines(&lines);
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
    bool more = true;
    clock_rfc3339(since, clock_wall_ns() - EVENTS_AGE_NS);
    struct lines lines = read_lines(q);
    for (size_t i = 0; i < lines.count && more; i++) {
        json_t *event = parse(q, lines.all[q->ascending ? i : lines.count - 1 - i].text);
        if (event && is_wanted(q, event, since))
            more = each(event, ctx);
        json_decref(event);
    }
    free(lines.all);
    buf_fini(&lines.text);
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
