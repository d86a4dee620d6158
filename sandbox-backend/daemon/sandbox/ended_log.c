// SPDX-License-Identifier: Apache-2.0
// The ended log.
#include "sandbox-backend/daemon/sandbox/ended_log.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"

#define FILE_BYTES_MAX (4L << 20)
#define DETAIL_BYTES   400
#define LINES_MAX      2000 // of the file: then it is rewritten, without the outdated half

static const struct {
    const char *name, *sentence;
} WHY[] = {
    [ENDED_KILLED] = {"killed", "it was killed by a request"},
    [ENDED_EXPIRED] = {"expired", "its time to live ended"},
    [ENDED_DIED] = {"died", "its machine ended unexpectedly"},
    [ENDED_STOPPED] = {"stopped", "the daemon was stopped"},
    [ENDED_LOST] = {"lost", "it no longer ran when the daemon was started again"},
    [ENDED_MOVED] = {"moved", "it was moved to another node"},
};

const char *ended_why_name(enum ended_why why)
{
    return WHY[why].name;
}

static bool is_old(const struct ended_entry *entry)
{
    return clock_wall_ns() - entry->at_ns > ENDED_LOG_AGE_NS;
}

// Put an entry into the ring. The texts are copied.
static const struct ended_entry *put(struct ended_log *ended, const struct ended_entry *what)
{
    struct ended_entry *entry = &ended->entries[ended->next];
    ended->next = (ended->next + 1) % ENDED_LOG_MAX;
    if (ended->count < ENDED_LOG_MAX)
        ended->count++;
    free(entry->detail);
    free(entry->owner);
    *entry = *what;
    entry->detail = what->detail ? str_printf("%.*s", DETAIL_BYTES, what->detail) : NULL;
    entry->owner = what->owner ? xstrdup(what->owner) : NULL;
    return entry;
}

static void add_line(struct buf *out, const struct ended_entry *entry)
{
    json_t *line = json_pack("{s:s, s:s, s:I}", "id", entry->id, "why", WHY[entry->why].name,
                             "at_ns", (json_int_t)entry->at_ns);
    if (entry->detail)
        json_object_set_new(line, "detail",
                            json_lossy_string(entry->detail, strlen(entry->detail)));
    if (entry->owner)
        json_object_set_new(line, "owner", json_string(entry->owner));
    json_to_buf(out, line);
    buf_addc(out, '\n');
    json_decref(line);
}

// Return the n-th entry, the oldest first. A full ring begins at `next`.
static const struct ended_entry *nth(const struct ended_log *ended, size_t n)
{
    size_t first = ended->count < ENDED_LOG_MAX ? 0 : ended->next;
    return &ended->entries[(first + n) % ENDED_LOG_MAX];
}

static void write_all(struct ended_log *ended)
{
    struct err e = ERR_INIT;
    struct buf text auto_buf = BUF_INIT;
    size_t lines = 0;
    for (size_t i = 0; i < ended->count; i++) {
        if (is_old(nth(ended, i)))
            continue;
        add_line(&text, nth(ended, i));
        lines++;
    }
    if (file_replace(ended->path, buf_str(&text), text.len, 0600, &e) < 0)
        log_warn("ended.write", "error=\"%s\"", e.msg);
    else
        ended->lines = lines;
}

// If only a part of the line was written (the disk is full), the next append rewrites the file.
static void append(struct ended_log *ended, const struct ended_entry *entry)
{
    struct err e = ERR_INIT;
    struct buf line auto_buf = BUF_INIT;
    add_line(&line, entry);
    int fd auto_close = open(ended->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        err_sys(&e, errno, "open %s", ended->path);
    else if (fd_write_all(fd, line.data, line.len, &e) == 0)
        ended->lines++;
    if (err_is(&e)) {
        log_warn("ended.append", "error=\"%s\"", e.msg);
        ended->lines = LINES_MAX; // rewrite the file the next time
    }
}

static void read_line(struct ended_log *ended, const char *text, size_t len)
{
    struct ended_entry entry = {0};
    const char *id = "", *why = "";
    json_int_t at_ns = 0;
    json_t *line = json_parse(text, len, NULL);
    int bad = json_unpack(line, "{s:s, s:s, s:I, s?s, s?s}", "id", &id, "why", &why, "at_ns",
                          &at_ns, "detail", &entry.detail, "owner", &entry.owner);
    for (size_t i = 0; bad == 0 && sandbox_id_is_valid(id) && i < ARRAY_LEN(WHY); i++) {
        if (strcmp(WHY[i].name, why) != 0)
            continue;
        snprintf(entry.id, sizeof entry.id, "%s", id);
        entry.why = (enum ended_why)i;
        entry.at_ns = at_ns;
        put(ended, &entry);
    }
    json_decref(line);
}

void ended_log_open(struct ended_log *ended, const char *home)
{
    memset(ended, 0, sizeof *ended);
    ended->path = home_path(home, "ended.jsonl");
    struct err e = ERR_INIT;
    struct buf text auto_buf = BUF_INIT;
    if (file_read(ended->path, FILE_BYTES_MAX, &text, &e) < 0) {
        if (e.code != ERR_NOT_FOUND)
            log_warn("ended.read", "error=\"%s\"", e.msg);
        return;
    }
    const char *at = buf_str(&text);
    for (const char *end; (end = strchr(at, '\n')); at = end + 1)
        read_line(ended, at, (size_t)(end - at));
    write_all(ended);
}

void ended_log_close(struct ended_log *ended)
{
    for (size_t i = 0; i < ended->count; i++) {
        free(ended->entries[i].detail);
        free(ended->entries[i].owner);
    }
    free(ended->path);
    memset(ended, 0, sizeof *ended);
}

void ended_log_add(struct ended_log *ended, const struct ended_entry *what)
{
    const struct ended_entry *entry = put(ended, what);
    if (ended->lines >= LINES_MAX)
        write_all(ended);
    else
        append(ended, entry);
}

const struct ended_entry *ended_log_find(const struct ended_log *ended, const char *id)
{
    for (size_t i = ended->count; i-- > 0;) {
        const struct ended_entry *entry = nth(ended, i);
        if (strcmp(entry->id, id) == 0)
            return is_old(entry) ? NULL : entry;
    }
    return NULL;
}

char *ended_sentence(const struct ended_entry *entry)
{
    char at[CLOCK_RFC3339_BYTES];
    clock_rfc3339(at, entry->at_ns / 1000000 * 1000000);
    if (entry->detail)
        return str_printf("%s at %s: %s", WHY[entry->why].sentence, at, entry->detail);
    return str_printf("%s at %s", WHY[entry->why].sentence, at);
}
