// SPDX-License-Identifier: Apache-2.0
#include "sandbox-backend/cli/copy/recheck.h"

#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/copy/remote.h"

#define ARGS_MAX  12
#define FILE_BITS 0100000
#define LINK_BITS 0120000

// One file has the three lists one after the other. A shell drops NUL bytes, so both sides of the
// comparison get line ends. $1: the directory; $2: that of the file; $3: the kind of the listing;
// $4 and $5: the lengths of the first two lists; $6: whether to look.
#define BEGIN                                                                                   \
    "dir=$2 kind=$3 names=$4 was=$5 looks=$6\n"                                                 \
    "cd -- \"$1\" || exit 1\n"                                                                  \
    "shift 6\n"                                                                                 \
    "list() {\n"                                                                                \
    "  if [ $names = 0 ]; then return; fi\n"                                                    \
    "  if [ $kind = G ]; then head -c $names \"$dir/plan\" | xargs -0 sh -c \\\n"               \
    "    'find \"$@\" -maxdepth 0 -printf \"%y %m %s %T@ %p\\\\0%l\\\\0\"' sh\n"                \
    "  else head -c $names \"$dir/plan\" | xargs -0 stat -c '%f %s %Y %n'; fi 2>/dev/null; }\n" \
    "was() { tail -c +$((names + 1)) \"$dir/plan\" | head -c $was; }\n"                         \
    "more() { tail -c +$((names + was + 1)) \"$dir/plan\"; }\n"

static const char LOOK[] = BEGIN "printf $kind; list; exit 0\n";
static const char CHECK[] =
    BEGIN "[ $looks = no ] || [ \"$(list | tr '\\0' '\\n')\" = \"$(was | tr '\\0' '\\n')\" ] || {\n"
          "  printf $kind; list; exit 0; }\n"
          "printf D\n";

void recheck_fini(struct recheck *g)
{
    buf_fini(&g->names);
    buf_fini(&g->was);
    buf_fini(&g->more);
}

static void add_name(struct buf *to, const char *path)
{
    buf_adds(to, "./");
    buf_add(to, path, strlen(path) + 1);
}

void recheck_name(struct recheck *g, const char *path)
{
    add_name(&g->names, path);
}

void recheck_add(struct recheck *g, const char *path)
{
    add_name(&g->more, path);
}

// The text is that of the listing's script (listing.c).
void recheck_expect(struct recheck *g, const char *path, const struct entry *was)
{
    bool is_link = was && was->type == 'l';
    if (was && was->type == 'd')
        return;
    add_name(&g->names, path);
    if (!was)
        return;
    long long size = is_link ? (long long)(was->target ? strlen(was->target) : 0) : was->size;
    if (g->kind == 'G') {
        buf_printf(&g->was, "%c %o %lld %lld.%09ld0 ./%s", was->type, was->mode, size,
                   (long long)was->seconds, was->nanoseconds, path);
        buf_addc(&g->was, '\0');
        buf_adds(&g->was, is_link && was->target ? was->target : "");
        buf_addc(&g->was, '\0');
    } else {
        buf_printf(&g->was, "%x %lld %lld ./%s\n", was->mode | (is_link ? LINK_BITS : FILE_BITS),
                   size, (long long)was->seconds, path);
    }
}

static int run(struct recheck *g, bool forces, const char *script, const char *const *args,
               struct buf *out, struct err *e)
{
    struct buf plan auto_buf = BUF_INIT;
    const char *dir = remote_dir(g->remote, e);
    if (!dir)
        return -1;
    char *file auto_free = str_printf("%s/plan", dir);
    char *names auto_free = str_printf("%zu", g->names.len);
    char *was auto_free = str_printf("%zu", g->was.len);
    char kind[] = {g->kind, '\0'};
    const char *words[ARGS_MAX + 1] = {g->path, dir, kind, names, was, forces ? "no" : "yes"};
    for (size_t i = 0; args && args[i] && i + 6 < ARGS_MAX; i++)
        words[i + 6] = args[i];
    buf_add(&plan, buf_str(&g->names), g->names.len);
    buf_add(&plan, buf_str(&g->was), g->was.len);
    buf_add(&plan, buf_str(&g->more), g->more.len);
    if (remote_upload_bytes(g->remote, &plan, file, e) < 0)
        return -1;
    return remote_script(g->remote, script, words, out, LISTING_BYTES_MAX, e);
}

enum recheck_end recheck_run(struct recheck *g, bool forces, const char *action,
                             const char *const *args, struct listing *now, struct buf *out,
                             struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    char *script auto_free = str_printf("%s%s", CHECK, action);
    int result = run(g, forces, script, args, &text, e);
    if (text.len && text.data[0] == 'D') {
        if (out)
            buf_add(out, text.data + 1, text.len - 1);
        return result < 0 ? RECHECK_FAILED : RECHECK_DONE;
    }
    if (result < 0 || listing_parse(now, &text, NULL, e) < 0)
        return RECHECK_FAILED;
    return RECHECK_CHANGED;
}

int recheck_look(struct recheck *g, struct listing *now, struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    if (run(g, false, LOOK, NULL, &text, e) < 0)
        return -1;
    return listing_parse(now, &text, NULL, e);
}
