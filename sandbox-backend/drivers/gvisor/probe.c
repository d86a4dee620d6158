// SPDX-License-Identifier: Apache-2.0
// Run a command under gVisor to find out whether gVisor works here. It blocks, so only the first
// probe, before which there is no result, runs in the daemon's loop; later ones run in a thread.
#include "sandbox-backend/drivers/gvisor/probe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/gvisor/bundle.h"
#include "sandbox-backend/drivers/gvisor/container_dir.h"
#include "sandbox-backend/drivers/gvisor/runsc.h"
#include "sandbox-backend/drivers/host/childlog.h"
#include "sandbox-backend/drivers/host/read_only.h"
#include "sandbox-backend/drivers/host/spawn.h"

#define COMMAND          "/bin/true"
#define LAYER_MB         16
#define MEMORY_MB        64
#define ATTEMPTS_MAX     8
#define CONFIG_BYTES_MAX 262144

#define DIR_PREFIX "cubby-probe-"

struct result {
    struct file_stamp runsc; // zero: nothing is known
    struct err err;
    int64_t until_ms; // clock_mono_ms; only for an error
};

// The last result. The loop and the thread of a probe use it.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct result known;
static bool is_probing; // a thread does

// The arguments of the thread.
struct again {
    char *runsc, *template_dir; // owned
    struct file_stamp stamp;
};

// Write the bundle of a machine of the template that runs COMMAND instead of Cubby's init.
static int make_bundle(const char *dir, int template, const char *template_dir, struct err *e)
{
    char *path auto_free = str_printf("%s/" BUNDLE_CONFIG, dir);
    struct buf text auto_buf = BUF_INIT;
    if (bundle_make(dir, template, template_dir, LAYER_MB, e) < 0 ||
        file_read(path, CONFIG_BYTES_MAX, &text, e) < 0)
        return -1;
    json_t *config = json_parse(buf_str(&text), text.len, e);
    if (!config)
        return -1;
    json_object_set_new(json_object_get(config, "process"), "args", json_pack("[s]", COMMAND));
    char *out auto_free = json_to_string(config);
    json_decref(config);
    return file_replace(path, out, strlen(out), 0600, e);
}

// runsc ends the sentry with the process that is started here, which ends with ours.
static pid_t start(const char *runsc, const char *dir, int template, int log, struct err *e)
{
    bool is_root = geteuid() == 0;
    char *root auto_free = str_printf("%s/state", dir);
    char *meminfo auto_free = str_printf("%s/" CONTAINER_MEMORY, dir);
    char *panics auto_free = str_printf("%s/" CONTAINER_PANIC, dir);
    char *panic_log auto_free = str_printf("--panic-log=%s/log", panics);
    if (runsc_tell_memory(meminfo, MEMORY_MB, e) < 0 || dir_make(panics, 0700, e) < 0)
        return -1;
    const char *args[] = {"runsc",
                          "--root",
                          root,
                          "--network=none",
                          RUNSC_FLAGS,
                          panic_log,
                          is_root ? "--directfs=false" : "--directfs=true",
                          "run",
                          "--bundle",
                          dir,
                          CONTAINER_ID,
                          NULL};
    char *argv[ARRAY_LEN(args)]; // execve(2) takes no const, but changes nothing
    for (size_t i = 0; i < ARRAY_LEN(args); i++)
        argv[i] = (char *)(uintptr_t)args[i];
    int in auto_close = runsc_stdin(e);
    if (in < 0)
        return -1;
    const int fds[] = {in, log, log, [BUNDLE_FD] = template};
    const struct spawn_opts opts = {.file = runsc,
                                    .argv = argv,
                                    .fds = fds,
                                    .fd_count = ARRAY_LEN(fds),
                                    .meminfo = meminfo,
                                    .hidden = RUNSC_HIDDEN,
                                    .scratch = panics,
                                    .dies_with_us = true,
                                    .namespaces = RUNSC_NAMESPACES};
    return spawn_program(&opts, e);
}

// Wait for the end of the process; kill it after PROBE_LIMIT_MS. Return its wait status.
static int await_end(pid_t pid, bool *in_time)
{
    int pidfd auto_close = (int)syscall(SYS_pidfd_open, pid, 0);
    int64_t until = clock_mono_ms() + PROBE_LIMIT_MS;
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    int status = 0;
    *in_time = false;
    for (int64_t left = PROBE_LIMIT_MS; pidfd >= 0 && left > 0 && !*in_time;
         left = until - clock_mono_ms())
        *in_time = poll(&p, 1, (int)left) > 0;
    if (!*in_time)
        kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

// Set *ran once runsc has started.
static int run(const char *runsc, const char *dir, int template, bool *ran, struct err *e)
{
    bool in_time = false;
    int log auto_close = childlog_open("probe.log", e);
    pid_t pid = log < 0 ? -1 : start(runsc, dir, template, log, e);
    if (pid < 0)
        return -1;
    *ran = true;
    int status = await_end(pid, &in_time);
    char *said auto_free = childlog_last_line(log);
    if (!in_time)
        return err_set(e, ERR_PRECONDITION, "a test command did not end within %d s",
                       PROBE_LIMIT_MS / 1000);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    return err_set(e, ERR_PRECONDITION, "a test command failed: %s",
                   said[0] ? said : "runsc gave no reason");
}

// Remove the directories of this user's killed probes, which no process has locked.
static void sweep(const char *tmp)
{
    DIR *entries = opendir(tmp);
    if (!entries)
        return;
    for (const struct dirent *entry; (entry = readdir(entries));) {
        struct stat st;
        if (!str_starts(entry->d_name, DIR_PREFIX) ||
            fstatat(dirfd(entries), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISDIR(st.st_mode) || st.st_uid != geteuid())
            continue;
        char *dir auto_free = str_printf("%s/%s", tmp, entry->d_name);
        int locked auto_close = dir_lock(dir);
        if (locked >= 0)
            dir_remove(dir, NULL);
    }
    closedir(entries);
}

// Make the probe's directory and lock it. It gets another name if a sweep of another probe takes it
// before it is locked. Return the lock, or -1; *dir: new string.
static int make_dir(const char *tmp, char **dir, struct err *e)
{
    for (int attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
        free(*dir);
        *dir = str_printf("%s/" DIR_PREFIX "XXXXXX", tmp);
        if (!mkdtemp(*dir))
            return err_sys(e, errno, "make %s", *dir);
        int locked = dir_lock(*dir);
        if (locked >= 0)
            return locked;
    }
    return err_sys(e, errno, "lock %s", *dir);
}

static int probe(const char *runsc, const char *template_dir, bool *ran, struct err *e)
{
    const char *given = getenv("TMPDIR");
    const char *tmp = given && *given == '/' ? given : "/tmp";
    char *dir auto_free = NULL;
    int template_fd auto_close = read_only_open(template_dir, e);
    if (template_fd < 0)
        return -1;
    sweep(tmp);
    int locked auto_close = make_dir(tmp, &dir, e);
    int result = locked < 0 ? -1 : make_bundle(dir, template_fd, template_dir, e);
    if (result == 0)
        result = run(runsc, dir, template_fd, ran, e);
    dir_remove(dir, NULL);
    return result;
}

static struct result find_out(const char *runsc, const struct file_stamp *stamp,
                              const char *template_dir)
{
    struct result found = {.err = ERR_INIT};
    bool ran = false;
    if (probe(runsc, template_dir, &ran, &found.err) < 0)
        err_wrap(&found.err, "gVisor does not work on this host");
    if (ran)
        found.runsc = *stamp;
    found.until_ms = clock_mono_ms() + PROBE_KNOWN_MS;
    return found;
}

static void *run_again(void *ctx)
{
    struct again *a = ctx;
    struct result found = find_out(a->runsc, &a->stamp, a->template_dir);
    pthread_mutex_lock(&lock);
    if (file_stamp_equal(&found.runsc, &a->stamp))
        known = found;
    else // runsc was not started, for a full disk for example: the old result stays
        known.until_ms = found.until_ms;
    is_probing = false;
    pthread_mutex_unlock(&lock);
    free(a->runsc);
    free(a->template_dir);
    free(a);
    return NULL;
}

// Probe in a thread. If there can be none, the next call tries again.
static void start_again(const char *runsc, const struct file_stamp *stamp, const char *template_dir)
{
    pthread_t thread;
    struct again *a = xcalloc(1, sizeof *a);
    *a = (struct again){xstrdup(runsc), xstrdup(template_dir), *stamp};
    is_probing = pthread_create(&thread, NULL, run_again, a) == 0;
    if (is_probing) {
        pthread_detach(thread);
        return;
    }
    free(a->runsc);
    free(a->template_dir);
    free(a);
}

static bool is_old(const struct result *r)
{
    return err_is(&r->err) && clock_mono_ms() >= r->until_ms;
}

int probe_gvisor(const char *runsc, const char *template_dir, struct err *e)
{
    struct file_stamp stamp;
    bool is_there = file_stamp_get(runsc, &stamp);
    pthread_mutex_lock(&lock);
    bool is_known = is_there && file_stamp_equal(&stamp, &known.runsc);
    if (is_known && !is_probing && is_old(&known))
        start_again(runsc, &stamp, template_dir);
    struct result result = known;
    pthread_mutex_unlock(&lock);
    if (!is_known) {
        result = find_out(runsc, &stamp, template_dir);
        pthread_mutex_lock(&lock);
        known = result;
        pthread_mutex_unlock(&lock);
    }
    return err_is(&result.err) ? err_set(e, ERR_PRECONDITION, "%s", result.err.msg) : 0;
}

void probe__expire(void)
{
    pthread_mutex_lock(&lock);
    known.until_ms = 0;
    pthread_mutex_unlock(&lock);
}
