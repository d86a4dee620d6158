// SPDX-License-Identifier: Apache-2.0
// What is remembered of sandboxes that ended.
#include "sandbox-backend/daemon/ended.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"

#define FILE_BYTES_MAX (4L << 20)
#define DETAIL_BYTES   400
#define LINES_MAX      2000 // then the file is written anew, without the half that is outdated

static const struct {
    const char *name, *sentence;
} WHY[] = {
    [ENDED_KILLED] = {"killed", "it was killed by a request"},
    [ENDED_EXPIRED] = {"expired", "its time to live was over"},
    [ENDED_DIED] = {"died", "it died"},
    [ENDED_STOPPED] = {"stopped", "the daemon was stopped"},
    [ENDED_LOST] = {"lost", "it did not run any more when the daemon was started again"},
};

const char *ended_why_name(enum ended_why why)
{
    return WHY[why].name;
}

static bool is_old(const struct ended_entry *entry)
{
    return clock_wall_ns() - entry->at_ns > ENDED_AGE_NS;
}

static struct ended_entry *slot(struct ended *ended)
{
    struct ended_entry *entry = &ended->entries[ended->next];
    ended->next = (ended->next + 1) % ENDED_MAX;
    if (ended->count < ENDED_MAX)
        ended->count++;
    free(entry->detail);
    free(entry->owner);
    *entry = (struct ended_entry){0};
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

// Oldest first: a ring that is full begins at `next`.
static const struct ended_entry *nth(const struct ended *ended, size_t n)
{
    size_t first = ended->count < ENDED_MAX ? 0 : ended->next;
    return &ended->entries[(first + n) % ENDED_MAX];
}

static void write_all(struct ended *ended)
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

// A torn last line (the daemon was killed, the disk was full) is no reason to lose the others.
static void append(struct ended *ended, const struct ended_entry *entry)
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
        ended->lines = LINES_MAX; // half a line may stand there: the next time writes all anew
    }
}

static void read_line(struct ended *ended, const char *text, size_t len)
{
    struct err e = ERR_INIT;
    const char *id = NULL, *why = NULL, *detail = NULL, *owner = NULL;
    int64_t at_ns = 0;
    json_t *line = json_parse(text, len, &e);
    if (line && json_get_string(line, "id", &id, "", &e) == 0 &&
        json_get_string(line, "why", &why, "", &e) == 0 &&
        json_get_string(line, "detail", &detail, NULL, &e) == 0 &&
        json_get_string(line, "owner", &owner, NULL, &e) == 0 &&
        json_get_int(line, "at_ns", 0, INT64_MAX, &at_ns, 0, &e) == 0 &&
        strlen(id) == SANDBOX_ID_LEN) {
        for (size_t i = 0; i < ARRAY_LEN(WHY); i++) {
            if (strcmp(WHY[i].name, why) != 0)
                continue;
            struct ended_entry *entry = slot(ended);
            memcpy(entry->id, id, SANDBOX_ID_LEN + 1);
            entry->why = (enum ended_why)i;
            entry->at_ns = at_ns;
            entry->detail = detail ? xstrdup(detail) : NULL;
            entry->owner = owner ? xstrdup(owner) : NULL;
        }
    }
    json_decref(line);
}

void ended_open(struct ended *ended, const char *home)
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

void ended_close(struct ended *ended)
{
    for (size_t i = 0; i < ended->count; i++) {
        free(ended->entries[i].detail);
        free(ended->entries[i].owner);
    }
    free(ended->path);
    memset(ended, 0, sizeof *ended);
}

void ended_add(struct ended *ended, const char *id, const char *owner, enum ended_why why,
               const char *detail)
{
    struct ended_entry *entry = slot(ended);
    memcpy(entry->id, id, SANDBOX_ID_LEN + 1);
    entry->why = why;
    entry->at_ns = clock_wall_ns();
    entry->detail = detail ? str_printf("%.*s", DETAIL_BYTES, detail) : NULL;
    entry->owner = owner ? xstrdup(owner) : NULL;
    if (ended->lines >= LINES_MAX)
        write_all(ended);
    else
        append(ended, entry);
}

const struct ended_entry *ended_find(const struct ended *ended, const char *id)
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
