// SPDX-License-Identifier: Apache-2.0
// Finds out whether a failure comes from a full disk of the host.
#include "sandbox-backend/drivers/host/disk_space.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define LITTLE_BYTES  (500LL << 20)
#define NOTHING_BYTES (1LL << 20)
#define RESERVE_BYTES (256 << 10)
#define WORDS_BYTES   (64 << 10) // the end of a log is searched
#define FULL          "the host's disk "

void disk_space_init(struct disk_space *s, const char *dir, const char *setting)
{
    *s = (struct disk_space){.dir = dir, .setting = setting, .least = -1};
    disk_space_look(s);
}

void disk_space_look(struct disk_space *s)
{
    int64_t free_bytes = dir_free_bytes(s->dir);
    if (free_bytes >= 0 && (s->least < 0 || free_bytes < s->least))
        s->least = free_bytes;
}

void disk_space_reserve_log(int log)
{
    struct stat st;
    if (fstat(log, &st) == 0) // without the reserve, the log may lack the last words
        (void)fallocate(log, FALLOC_FL_KEEP_SIZE, st.st_size, RESERVE_BYTES);
}

int disk_space_release_log(int log, struct err *e)
{
    struct stat st;
    return fstat(log, &st) < 0 || ftruncate(log, st.st_size) < 0
               ? err_sys(e, errno, "cut the log to its size")
               : 0;
}

static bool tells_of_full_disk(const char *text)
{
    return strcasestr(text, "no space left on device") || strstr(text, "ENOSPC");
}

static bool log_tells(const char *log)
{
    char *words auto_free = xmalloc(WORDS_BYTES + 1);
    return log && file_read_tail(log, words, WORDS_BYTES) && tells_of_full_disk(words);
}

bool disk_space_explain(struct disk_space *s, const char *log, struct err *e)
{
    disk_space_look(s);
    if (!err_is(e) || s->least < 0 || s->least >= LITTLE_BYTES || strstr(e->msg, FULL))
        return false;
    bool has_words = s->needs != DISK_CODE && (tells_of_full_disk(e->msg) || log_tells(log));
    bool is_sure = s->least < NOTHING_BYTES || e->code == ERR_NO_SPACE || has_words;
    if (!is_sure && s->needs != DISK_LITTLE_ROOM)
        return false;
    err_wrap(e,
             FULL "%s full: only %lld MB were free in %s; make room, or set %s to a directory on a "
                  "larger file system",
             is_sure ? "is" : "may be", (long long)(s->least >> 20), s->dir, s->setting);
    if (is_sure)
        e->code = ERR_NO_SPACE;
    return true;
}
