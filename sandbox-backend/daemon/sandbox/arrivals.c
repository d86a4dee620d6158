// SPDX-License-Identifier: Apache-2.0
// Notes about the moves of sandboxes to this node.
#include "sandbox-backend/daemon/sandbox/arrivals.h"

#include <stdio.h>
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/sandbox_id.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/sandbox/store.h"

#define ARRIVALS       "arrivals" // a directory of the home
#define FILE_BYTES_MAX 65536
#define LINES_MAX      16 // the last ones, which are kept
#define RANDOM_BYTES   8
#define NUMBER_MAX     INT32_MAX

static const char *const WORDS[] = {
    [ARRIVAL_OFFERED] = "offered", [ARRIVAL_TAKEN] = "taken", [ARRIVAL_REFUSED] = "refused"};

// Return the number of a valid name, or -1.
static int64_t number_of(const char *move)
{
    char digits[16];
    int64_t number = -1;
    size_t len = strcspn(move, "-");
    if (len == 0 || len >= sizeof digits)
        return -1;
    memcpy(digits, move, len);
    digits[len] = '\0';
    return str_to_int(digits, 1, NUMBER_MAX, &number) ? number : -1;
}

bool arrivals_move_is_valid(const char *move)
{
    const char *dash = move ? strchr(move, '-') : NULL;
    return dash && number_of(move) > 0 && strlen(dash + 1) == 2 * RANDOM_BYTES &&
           strspn(dash + 1, "0123456789abcdef") == 2 * RANDOM_BYTES;
}

char *arrivals_move_after(const char *before)
{
    char *random auto_free = random_hex(RANDOM_BYTES);
    int64_t number = before ? number_of(before) : 0;
    return str_printf("%lld-%s", (long long)(number > 0 && number < NUMBER_MAX ? number + 1 : 1),
                      random);
}

static char *path_of(const struct store *store, const char *id)
{
    return str_printf("%s/" ARRIVALS "/%.*s", store->home, (int)sandbox_id_len(id), id);
}

// Return ARRIVAL_NEW for an unknown word.
static enum arrival_note note_of(const char *word)
{
    for (size_t i = ARRIVAL_OFFERED; i < ARRAY_LEN(WORDS); i++)
        if (str_eq(word, WORDS[i]))
            return (enum arrival_note)i;
    return ARRIVAL_NEW;
}

static int err_damaged(const char *path, struct err *e)
{
    return err_set(e, ERR_INTERNAL,
                   "%s is damaged, so nothing shows what has become of the sandbox's moves to this "
                   "node; remove the file if the sandbox is not here and no drain is under way",
                   path);
}

int arrivals_find(const struct store *store, const char *id, const char *move,
                  enum arrival_note *out, struct err *e)
{
    char *path auto_free = path_of(store, id);
    struct buf text auto_buf = BUF_INIT;
    int64_t newest = 0;
    *out = ARRIVAL_NEW;
    if (!file_exists(path))
        return 0;
    if (file_read(path, FILE_BYTES_MAX, &text, e) < 0)
        return -1;
    if (text.len == 0 || strlen(buf_str(&text)) != text.len || text.data[text.len - 1] != '\n')
        return err_damaged(path, e);
    char *all auto_free = buf_take(&text);
    char *rest = all;
    for (char *line; (line = strsep(&rest, "\n")) && rest;) {
        const char *name = strsep(&line, " ");
        if (!arrivals_move_is_valid(name) || note_of(line) == ARRIVAL_NEW)
            return err_damaged(path, e);
        if (str_eq(name, move))
            *out = note_of(line);
        newest = number_of(name) > newest ? number_of(name) : newest;
    }
    if (*out == ARRIVAL_NEW && newest >= number_of(move))
        *out = ARRIVAL_REFUSED;
    return 0;
}

// Append the lines but that of the move: all that say "taken", which the other node may still ask
// about, and the last others. One that is left out counts as refused, as it is older.
static void copy_others(const char *text, const char *move, struct buf *out)
{
    size_t lines = 0;
    for (const char *c = text; *c; c++)
        lines += *c == '\n';
    char *all auto_free = xstrdup(text);
    char *rest = all;
    for (char *line; (line = strsep(&rest, "\n")) && rest; lines--)
        if ((lines < LINES_MAX || str_ends(line, " taken")) &&
            !(str_starts(line, move) && line[strlen(move)] == ' '))
            buf_printf(out, "%s\n", line);
}

int arrivals_write(const struct store *store, const char *id, const char *move,
                   enum arrival_note note, struct err *e)
{
    char *dir auto_free = home_path(store->home, ARRIVALS);
    char *path auto_free = path_of(store, id);
    struct buf text auto_buf = BUF_INIT, changed auto_buf = BUF_INIT;
    if (dir_make(dir, 0700, e) < 0 ||
        (file_exists(path) && file_read(path, FILE_BYTES_MAX, &text, e) < 0))
        return -1;
    copy_others(buf_str(&text), move, &changed);
    buf_printf(&changed, "%s %s\n", move, WORDS[note]);
    return file_write_atomic(path, changed.data, changed.len, 0600, e);
}
