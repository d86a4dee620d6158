// SPDX-License-Identifier: Apache-2.0
// What an action does in the sandbox of its stage.
//
// The guest itself unpacks what a step copies, and finds the ids of users. The host parses nothing
// that a guest has made.
#include "sandbox-backend/build/steps.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/build/inflate.h"

#define SCRIPT_MS    600000 // for what the build itself does in a guest, as unpacking an archive
#define END_MS       60000  // for ending what a RUN left behind; a guest full of processes is slow
#define ARCHIVE_MAX  (64LL << 30)
#define STAGING      "/.cubby-build"
#define ARGV_MAX     1024
#define WORDS_QUOTED "*?[]"

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

// ---- directories and users
static int make_directories(const struct steps *s, const char *id, const json_t *make,
                            struct err *e)
{
    struct buf script auto_buf = BUF_INIT;
    size_t i;
    json_t *one;
    json_array_foreach (make, i, one) {
        char *dir auto_free = str_shell_word(json_string_value(json_array_get(one, 0)));
        char *user auto_free = str_shell_word(json_string_value(json_array_get(one, 1)));
        buf_printf(&script, "[ -d %s ] || { mkdir -p %s && chown %s %s; } || exit 1\n", dir, dir,
                   user, dir);
    }
    return script.len ? session_script(s->session, id, buf_str(&script), SCRIPT_MS, NULL, e) : 0;
}

// envd knows users by name only, and gives a command the groups of its user.
static const char FIND_USER[] =
    "u=${w%%:*}; g=; case $w in *:*) g=${w#*:};; esac\n"
    "while IFS=: read -r n p i pg rest; do\n"
    "  [ \"$n\" = \"$u\" ] || [ \"$i\" = \"$u\" ] || continue\n"
    "  if [ -n \"$g\" ] && [ \"$g\" != \"$pg\" ]; then\n"
    "    while IFS=: read -r gn gp gi grest; do\n"
    "      [ \"$gn\" = \"$g\" ] && [ \"$gi\" = \"$pg\" ] && { printf %s \"$n\"; exit 0; }\n"
    "    done </etc/group\n"
    "    echo \"the group $g is not the first group of the user $u\"; exit 1\n"
    "  fi\n"
    "  printf %s \"$n\"; exit 0\n"
    "done </etc/passwd\n"
    "echo \"the image has no user $u; add one with RUN useradd or adduser\"; exit 1\n";

static char *find_user(const struct steps *s, const char *id, const char *wanted, struct err *e)
{
    struct buf out auto_buf = BUF_INIT;
    char *word auto_free = str_shell_word(wanted);
    char *script auto_free = str_printf("w=%s\n%s", word, FIND_USER);
    if (str_eq(wanted, "root"))
        return xstrdup(wanted);
    if (session_script(s->session, id, script, SCRIPT_MS, &out, e) < 0)
        return NULL;
    if (out.len && utf8_is_valid(out.data, out.len))
        return xstrdup(buf_str(&out));
    err_set(e, ERR_INVALID, "the user %.60s was not found", wanted);
    return NULL;
}

// ---- RUN
// Each command has a control group. All groups but the script's own are frozen first, so that
// nothing forks on while it is killed.
static const char END_PROCESSES[] =
    "own=; while IFS= read -r l; do own=${l#0::}; done </proc/self/cgroup\n"
    "n=0\n"
    "while [ $n -lt 100 ]; do\n"
    "  n=$((n+1)); found=\n"
    "  for d in /sys/fs/cgroup/commands/*; do\n"
    "    [ \"/sys/fs/cgroup$own\" = \"$d\" ] && continue\n"
    "    mine=\n"
    "    while read -r p; do mine=1; break; done <\"$d/cgroup.procs\"\n"
    "    [ -n \"$mine\" ] || continue\n"
    "    found=1; echo 1 >\"$d/cgroup.freeze\"\n"
    "    while read -r p; do kill -9 \"$p\" 2>/dev/null; done <\"$d/cgroup.procs\"\n"
    "    echo 0 >\"$d/cgroup.freeze\"\n"
    "  done\n"
    "  [ -n \"$found\" ] || exit 0\n"
    "  sleep 0.05 2>/dev/null || sleep 1\n"
    "done\n"
    "echo 'the processes that the step left behind cannot be ended'; exit 1\n";

static int run_command(const struct steps *s, const char *id, const json_t *what, const char *user,
                       struct err *e)
{
    const json_t *words = json_object_get(what, "argv");
    const char *argv[ARGV_MAX + 1] = {0};
    size_t i;
    json_t *word;
    int status = 0;
    if (json_array_size(words) > ARGV_MAX)
        return err_set(e, ERR_TOO_LARGE, "the command has more than %d words", ARGV_MAX);
    json_array_foreach (words, i, word) {
        argv[i] = json_string_value(word);
    }
    const struct session_command command = {.argv = argv,
                                            .env = json_object_get(what, "env"),
                                            .user = user,
                                            .directory = text_of(what, "directory"),
                                            .timeout_ms = s->timeout_ms,
                                            .on_output = s->on_output,
                                            .ctx = s->ctx};
    if (session_run(s->session, id, &command, &status, e) < 0)
        return -1;
    return status ? err_set(e, ERR_INVALID, "the command ended with status %d", status) : 0;
}

static int do_run(const struct steps *s, const char *id, const struct action *a, struct err *e)
{
    char *user auto_free = find_user(s, id, text_of(a->what, "user"), e);
    if (!user || run_command(s, id, a->what, user, e) < 0)
        return -1;
    if (session_script(s->session, id, END_PROCESSES, END_MS, NULL, e) < 0)
        return err_wrap(e, "end the processes that the command left behind");
    return 0;
}

// ---- COPY: the archive
// Append a source as a word of the shell. A pattern's stars are not quoted; everything else is.
static void add_source(struct buf *out, const char *source, bool pattern)
{
    source += strspn(source, "/");
    buf_adds(out, " ./");
    for (const char *c = source; *c; c++) {
        if (pattern && *c == '\\' && c[1])
            c++;
        else if (pattern && strchr(WORDS_QUOTED, *c)) {
            buf_addc(out, *c);
            continue;
        }
        if (*c == '\'')
            buf_adds(out, "\"'\"");
        else if (isalnum((unsigned char)*c) || strchr("/._-", *c))
            buf_addc(out, *c);
        else
            buf_printf(out, "'%c'", *c);
    }
}

static void add_sources(struct buf *out, const json_t *what)
{
    bool pattern = json_is_true(json_object_get(what, "pattern"));
    size_t i;
    json_t *one;
    json_array_foreach (json_object_get(what, "sources"), i, one) {
        add_source(out, json_string_value(one), pattern);
    }
}

// Run a script that may be longer than an argument can be.
static int run_script(const struct steps *s, const char *id, const struct buf *script,
                      struct err *e)
{
    int fd = fd_open_memory("script", script->data, script->len, e);
    if (fd < 0 || session_upload(s->session, id, fd, STAGING "/script", e) < 0)
        return -1;
    return session_script(s->session, id, "exec /bin/sh " STAGING "/script", SCRIPT_MS, NULL, e);
}

// In the other stage: put the sources into an archive. A source that is a link is followed.
static int fetch_from(const struct steps *s, const char *from, const struct action *a, int fd,
                      struct err *e)
{
    struct buf script auto_buf = BUF_INIT;
    buf_adds(&script, "set -e\nexec 2>&1\nrm -rf " STAGING "/f\nmkdir -p " STAGING "/f\ncd /\n"
                      "for p in");
    add_sources(&script, a->what);
    buf_adds(
        &script,
        "; do\n"
        "  [ \"$p\" != ./ ] || p='.'\n"
        "  if [ ! -e \"$p\" ] && [ ! -L \"$p\" ]; then echo \"there is no $p in that stage\"; "
        "exit 1; fi\n"
        "  t=" STAGING "/f/$p\n"
        "  if [ \"$p\" = . ]; then\n"
        "    for q in * .[!.]*; do case $q in proc|sys|dev|.cubby-build|'.[!.]*') ;;\n"
        "      *) cp -al \"$q\" " STAGING "/f/;; esac; done\n"
        "  elif [ -L \"$p\" ] && [ -d \"$p\" ]; then mkdir -p \"$t\"; cp -al \"$p/.\" \"$t/\"\n"
        "  elif [ -L \"$p\" ]; then mkdir -p \"${t%/*}\"; cp -pL \"$p\" \"$t\"\n"
        "  elif [ -d \"$p\" ]; then mkdir -p \"$t\"; cp -al \"$p/.\" \"$t/\"\n"
        "  else mkdir -p \"${t%/*}\"; cp -al \"$p\" \"$t\"; fi\n"
        "done\n"
        "tar -cf " STAGING "/a.tar -C " STAGING "/f .\n");
    if (run_script(s, from, &script, e) < 0)
        return -1;
    int copy = dup(fd);
    if (copy < 0)
        return err_sys(e, errno, "dup");
    if (session_download(s->session, from, STAGING "/a.tar", copy, ARCHIVE_MAX, e) < 0)
        return -1;
    return session_script(s->session, from, "rm -rf " STAGING, SCRIPT_MS, NULL, e);
}

static int pack_context(const struct steps *s, const struct action *a, int fd, struct err *e)
{
    struct selection selected;
    if (build_context_select(s->context, a->step, &selected, e) < 0)
        return -1;
    int result = strcmp(selected.hash, text_of(a->what, "hash")) == 0
                     ? build_context_pack(s->context, a->step, &selected, fd, e)
                     : err_set(e, ERR_CONFLICT, "the files changed during the build; build again");
    selection_fini(&selected);
    return result;
}

static int open_given(const struct steps *s, const char *path, struct err *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return err_sys(e, errno, "the archive %s", path);
    fd = inflate_archive(fd, s->disk_bytes, e);
    return fd < 0 ? err_wrap(e, "the archive of the files to copy") : fd;
}

// Return a descriptor of the archive, at its beginning.
static int open_archive(const struct steps *s, const struct action *a, const char *from,
                        struct err *e)
{
    const char *given = json_string_value(json_object_get(a->step, "archive"));
    if (given && !from && !s->context)
        return open_given(s, given, e);
    int fd auto_close = fd_open_temp(e);
    if (fd < 0 || (from ? fetch_from(s, from, a, fd, e) : pack_context(s, a, fd, e)) < 0)
        return -1;
    if (lseek(fd, 0, SEEK_SET) < 0)
        return err_sys(e, errno, "read the archive");
    return steal_fd(&fd);
}

// ---- COPY: in the guest
static const char PLACE[] =
    "cd " STAGING "/t\n"
    "slash=; case $dest in */) slash=1;; esac\n"
    "d=${dest%%/}; [ -n \"$d\" ] || d=/\n"
    "mk() { [ -z \"$1\" ] || [ -d \"$1\" ] || { mk \"${1%%/*}\"; mkdir \"$1\"; chown $owner "
    "\"$1\"; "
    "}; }\n"
    "for s in %s; do\n"
    "  if [ ! -e \"$s\" ] && [ ! -L \"$s\" ]; then echo \"nothing matches $s\"; exit 1; fi\n"
    "  if [ -d \"$s\" ] && [ ! -L \"$s\" ]; then\n"
    "    mk \"$d\"; was=$(stat -c '%%a %%u:%%g' \"$d/.\")\n"
    "    cp -alf \"$s/.\" \"$d/\"\n"
    "    chmod ${was%%%% *} \"$d/.\"; chown ${was#* } \"$d/.\"\n"
    "  else\n"
    "    if [ $many = 1 ] || [ -n \"$slash\" ] || [ -d \"$d\" ]; then\n"
    "      mk \"$d\"; t=$d/${s##*/}\n"
    "    else mk \"${d%%/*}\"; t=$d; fi\n"
    "    if [ -d \"$t\" ] && [ ! -L \"$t\" ]; then\n"
    "      echo \"a file cannot replace the directory $t\"; exit 1; fi\n"
    "    rm -f \"$t\"; mv \"$s\" \"$t\"\n"
    "  fi\n"
    "done\n"
    "cd /; rm -rf " STAGING "\n";

// A user without a group means the user's own group, and a number without one the same number.
static char *owner_of(const char *user)
{
    if (strchr(user, ':'))
        return str_shell_word(user);
    bool number = user[strspn(user, "0123456789")] == '\0';
    char *both auto_free = str_printf("%s:%s", user, number ? user : "");
    return str_shell_word(both);
}

static void copy_script(struct buf *out, const json_t *what)
{
    char *dest auto_free = str_shell_word(text_of(what, "dest"));
    char *user auto_free = owner_of(text_of(what, "user"));
    char *mode auto_free = str_shell_word(text_of(what, "mode"));
    struct buf sources auto_buf = BUF_INIT;
    add_sources(&sources, what);
    buf_printf(out,
               "set -e\nexec 2>&1\nif ! command -v tar >/dev/null; then echo 'COPY needs the "
               "program tar in the image'; exit 1; fi\n"
               "mkdir -p " STAGING "/t\ndest=%s\nmany=%d\nowner=%s\n"
               "tar -xpof " STAGING "/a.tar -C " STAGING "/t\nrm " STAGING "/a.tar\n",
               dest, json_array_size(json_object_get(what, "sources")) > 1, user);
    if (!str_eq(text_of(what, "user"), "0:0"))
        buf_printf(out, "chown -hR %s " STAGING "/t\n", user);
    if (*text_of(what, "mode"))
        buf_printf(out, "chmod -R %s " STAGING "/t\n", mode);
    buf_printf(out, PLACE, buf_str(&sources));
}

static int do_copy(const struct steps *s, const char *id, const struct action *a, const char *from,
                   struct err *e)
{
    struct buf script auto_buf = BUF_INIT;
    int fd = open_archive(s, a, from, e);
    if (fd < 0)
        return -1;
    copy_script(&script, a->what);
    if (session_upload(s->session, id, fd, STAGING "/a.tar", e) < 0)
        return -1;
    return run_script(s, id, &script, e);
}

// ---- all
int steps_do(const struct steps *s, const char *id, const struct action *a, const char *from,
             struct err *e)
{
    const char *type = text_of(a->what, "type");
    if (make_directories(s, id, json_object_get(a->what, "make"), e) < 0)
        return -1;
    if (str_eq(type, "RUN"))
        return do_run(s, id, a, e);
    return str_eq(type, "COPY") ? do_copy(s, id, a, from, e) : 0;
}

int steps_check_user(const struct steps *s, const char *id, const char *user, struct err *e)
{
    char *found auto_free = find_user(s, id, user, e);
    return found ? 0 : -1;
}

int steps_sync(const struct steps *s, const char *id, struct err *e)
{
    return session_script(s->session, id, "sync", SCRIPT_MS, NULL, e);
}
