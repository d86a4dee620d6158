// SPDX-License-Identifier: Apache-2.0
#include "sandbox-backend/cli/copy/sync_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define FILE_MAX    (512 << 20)
#define FILE_MODE   0600
#define DIR_MODE    0700
#define PERMISSIONS 0777
#define FNV_BASIS   0xcbf29ce484222325ULL
#define FNV_PRIME   0x100000001b3ULL

// A name for the file of a key; the file also has the key.
static char *name_of(const char *key)
{
    unsigned long long hash = FNV_BASIS;
    for (const char *s = key; *s; s++)
        hash = (hash ^ (unsigned char)*s) * FNV_PRIME;
    return str_printf("%016llx", hash);
}

// The file has the key and then a line for each entry of each side, with names in base64.
static void write_entry(struct buf *out, char side, const struct entry *entry)
{
    struct buf path auto_buf = BUF_INIT;
    struct buf target auto_buf = BUF_INIT;
    base64_encode(&path, entry->path, strlen(entry->path));
    if (entry->target)
        base64_encode(&target, entry->target, strlen(entry->target));
    buf_printf(out, "%c %c %o %lld %lld %ld %s %s\n", side, entry->type, entry->mode,
               (long long)entry->size, (long long)entry->seconds, entry->nanoseconds,
               buf_str(&path), entry->target ? buf_str(&target) : "-");
}

static char *decoded(const char *text)
{
    struct buf out auto_buf = BUF_INIT;
    return base64_decode(&out, text, strlen(text)) ? xstrdup(buf_str(&out)) : NULL;
}

static int read_entry(struct sync_state *s, const char *line, struct err *e)
{
    struct entry entry = {0};
    char side = 0;
    int at_path = 0;
    int at_target = 0;
    int end = 0;
    long long size = 0;
    long long seconds = 0;
    int count =
        sscanf(line, "%c %c %o %lld %lld %ld %n%*s %n%*s%n", &side, &entry.type, &entry.mode, &size,
               &seconds, &entry.nanoseconds, &at_path, &at_target, &end);
    if (count != 6 || !at_path || !at_target || !end || (side != 'h' && side != 'g'))
        return err_set(e, ERR_INVALID, "the file is damaged");
    char *path auto_free = xstrndup(line + at_path, strcspn(line + at_path, " "));
    entry.size = size;
    entry.seconds = seconds;
    entry.path = decoded(path);
    entry.target = str_eq(line + at_target, "-") ? NULL : decoded(line + at_target);
    if (!entry.path || !listing_path_is_plain(entry.path)) {
        entry_fini(&entry);
        return err_set(e, ERR_INVALID, "the file is damaged");
    }
    return listing_add(side == 'h' ? &s->host : &s->guest, entry, e);
}

int sync_state_parse(struct sync_state *s, struct buf *text, struct err *e)
{
    char *rest = NULL;
    char *line = text->len ? strtok_r(text->data, "\n", &rest) : NULL;
    if (!line || strcmp(line, s->key) != 0)
        return err_set(e, ERR_INVALID, "the file is for other directories");
    while ((line = strtok_r(NULL, "\n", &rest)))
        if (read_entry(s, line, e) < 0)
            return -1;
    listing_sort(&s->host);
    listing_sort(&s->guest);
    return 0;
}

int sync_state_open(struct sync_state *s, const char *host, const char *id, const char *guest,
                    struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    struct buf key auto_buf = BUF_INIT;
    *s = (struct sync_state){0};
    char *home auto_free = home_open(e);
    if (!home)
        return -1;
    char *dir auto_free = home_path(home, "sync");
    buf_adds(&key, id);
    buf_addc(&key, ' ');
    base64_encode(&key, host, strlen(host));
    buf_addc(&key, ' ');
    base64_encode(&key, guest, strlen(guest));
    s->key = xstrdup(buf_str(&key));
    char *name auto_free = name_of(s->key);
    s->file = str_printf("%s/%s", dir, name);
    if (dir_make(dir, DIR_MODE, e) < 0)
        return -1;
    if (!file_exists(s->file))
        return 0;
    if (file_read(s->file, FILE_MAX, &text, e) < 0 || sync_state_parse(s, &text, e) < 0)
        return err_wrap(e, "remove %.150s, the state of the last cubby sync, and run it again",
                        s->file);
    return 0;
}

void sync_state_print(const struct sync_state *s, struct buf *out)
{
    buf_printf(out, "%s\n", s->key);
    for (size_t i = 0; i < s->new_host.count; i++)
        write_entry(out, 'h', &s->new_host.entries[i]);
    for (size_t i = 0; i < s->new_guest.count; i++)
        write_entry(out, 'g', &s->new_guest.entries[i]);
}

int sync_state_save(struct sync_state *s, struct err *e)
{
    struct buf out auto_buf = BUF_INIT;
    sync_state_print(s, &out);
    return file_write_atomic(s->file, out.data, out.len, FILE_MODE, e);
}

void sync_state_fini(struct sync_state *s)
{
    free(s->file);
    free(s->key);
    listing_fini(&s->host);
    listing_fini(&s->guest);
    listing_fini(&s->new_host);
    listing_fini(&s->new_guest);
}

void sync_state_note(struct sync_state *s, const struct entry *host, const struct entry *guest)
{
    struct entry copy;
    entry_copy(&copy, host);
    listing_add(&s->new_host, copy, NULL);
    entry_copy(&copy, guest);
    free(copy.path);
    copy.path = xstrdup(host->path);
    listing_add(&s->new_guest, copy, NULL);
}

bool sync_state_differs(const struct entry *now, const struct entry *noted)
{
    if (!now || !noted)
        return now || noted;
    if (now->type != noted->type)
        return true;
    if (now->type == 'd')
        return false;
    if (now->type == 'l')
        return now->target && noted->target && strcmp(now->target, noted->target) != 0;
    return now->size != noted->size || now->seconds != noted->seconds ||
           now->nanoseconds != noted->nanoseconds ||
           (now->mode & PERMISSIONS) != (noted->mode & PERMISSIONS);
}
