// SPDX-License-Identifier: Apache-2.0
// cubby setup: the template "default", from the nearest source.
//
//  1. $CUBBY_TEMPLATE_ARCHIVE, a file or a URL;
//  2. share/cubby/templates/default.cubby of the installation, from the package with the template;
//  3. the URL and SHA-256 digest in share/cubby/templates/default.url, where the publisher of this
//     installation keeps the archive;
//  4. a build from Debian's packages.
//
// A template from an archive is ready when its microVM is saved. Its part for gVisor is made after
// that, in the background (setup_finish): sandboxes can start meanwhile.
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/setup/setup.h"
#include "sandbox-backend/drivers/host/tool.h"
#include "sandbox-backend/template/finish.h"

#define SHARED        "../share/cubby/templates/default"
#define URL_BYTES_MAX 8192
#define FINISH_LOG    "finish.log" // in the state directory

struct source {
    char *archive; // owned: a file or URL; NULL: the template is built
    char *digest;  // owned: that the archive must have; NULL: any
};

static void source_fini(struct source *s)
{
    free(s->archive);
    free(s->digest);
}

int setup_run(int (*verb)(int argc, char **argv), const char *const *words, int count)
{
    char *argv[8] = {0};
    for (int i = 0; i < count; i++)
        argv[i] = xstrdup(words[i]);
    char *kept[8];
    memcpy(kept, argv, sizeof kept);
    int status = verb(count, argv);
    for (int i = 0; i < count; i++)
        free(kept[i]);
    return status;
}

// Return the path of a file of the installation, or NULL if it has none. New string.
static char *shared_file(const char *suffix)
{
    char *server auto_free = self_program("cubbyd", NULL);
    if (!server)
        return NULL;
    *strrchr(server, '/') = '\0';
    char *path auto_free = str_printf("%s/" SHARED "%s", server, suffix);
    return file_exists(path) ? steal(&path) : NULL;
}

// Parse "URL DIGEST".
static int read_url(const char *path, struct source *out, struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    if (file_read(path, URL_BYTES_MAX, &text, e) < 0)
        return -1;
    const char *line = buf_str(&text);
    size_t url = strcspn(line, " \n");
    size_t digest = line[url] == ' ' ? strcspn(line + url + 1, "\n") : 0;
    if (!url || !digest)
        return err_set(e, ERR_INVALID, "%s must have a URL and a digest; install Cubby again",
                       path);
    out->archive = xstrndup(line, url);
    out->digest = xstrndup(line + url + 1, digest);
    return 0;
}

static int find_source(struct source *out, struct err *e)
{
    const char *set = getenv(SETUP_ARCHIVE_ENV);
    char *url auto_free = NULL;
    if (set && *set)
        out->archive = xstrdup(set);
    else if ((out->archive = shared_file(".cubby")) || !(url = shared_file(".url")))
        return 0;
    return url ? read_url(url, out, e) : 0;
}

// Say what else a user can do, after the error of an import from a URL.
static void advise(const char *url)
{
    fputs("cubby: if this computer has no network, download ", stderr);
    cli_print_safe(stderr, url);
    fputs(" on another one, and set " SETUP_ARCHIVE_ENV " to the file\n", stderr);
}

static int import(const struct source *s, bool for_all)
{
    const char *words[8] = {"template", "import", s->archive};
    int count = 3;
    if (s->digest) {
        words[count++] = "--sha256";
        words[count++] = s->digest;
    }
    words[count++] = "--microvm-only";
    if (for_all)
        words[count++] = "--system";
    int status = setup_run(verb_template, words, count);
    if (status != 0 && str_starts(s->archive, "http"))
        advise(s->archive);
    return status;
}

static int build(bool for_all)
{
    const char *words[] = {"template", "build", "default", "--system"};
    int status = setup_run(verb_template, words, for_all ? 4 : 3);
    char *tool auto_free = tool_find("mmdebstrap", "mmdebstrap", NULL);
    if (status != 0 && !tool)
        fputs("cubby: without mmdebstrap, set " SETUP_ARCHIVE_ENV
              " to an archive of the template, which \"cubby template export\" writes\n",
              stderr);
    return status;
}

int setup_template(bool for_all)
{
    struct source s = {0};
    struct err e = ERR_INIT;
    int status = 0;
    if (find_source(&s, &e) == 0) {
        printf("template: %s \"default\" for %s\n", s.archive ? "taking over" : "building",
               for_all ? "all users of this machine" : "this user");
        fflush(stdout);
        status = s.archive ? import(&s, for_all) : build(for_all);
    } else {
        status = cli_fail(&e);
    }
    source_fini(&s);
    return status;
}

// ---- the part for gVisor

// Start `cubby template finish` in a session of its own, so that it outlives the terminal. Its
// output goes to `log`.
static int start_finish(const char *log, struct err *e)
{
    char *program auto_free = self_program("cubby", e);
    char name[] = "cubby", verb[] = "template", word[] = "finish";
    char *argv[] = {name, verb, word, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    pid_t pid;
    if (!program)
        return -1;
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&how);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, log, O_WRONLY | O_CREAT | O_TRUNC,
                                     0600);
    posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSID);
    int rc = posix_spawn(&pid, program, &files, &how, argv, environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&how);
    return rc == 0 ? 0 : err_sys(e, rc, "start %s", program);
}

void setup_finish(const char *home)
{
    struct err e = ERR_INIT;
    char *log auto_free = home_path(home, FINISH_LOG);
    char *failed = NULL;
    if (!template_finish_is_wanted(home, "default", &failed))
        return;
    if (failed) {
        fputs("template: it has no part for gVisor, because ", stdout);
        cli_print_safe(stdout, failed);
        puts("\nTo try again, for example after a change of this host's settings: cubby template "
             "finish");
        free(failed);
        return;
    }
    fflush(stdout);
    if (start_finish(log, &e) < 0)
        cli_fail(&e);
    else
        printf("template: its part for gVisor is made in the background, for about a minute; until "
               "then\nsandboxes are microVMs (%s)\n",
               log);
}
