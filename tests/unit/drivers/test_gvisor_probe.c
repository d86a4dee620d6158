// SPDX-License-Identifier: Apache-2.0
// Tests which results of a probe are remembered. A script is runsc here, and counts its starts.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/gvisor/probe.h"
#include "tests/lib/harness/tap.h"

enum { AWAIT_MAX = 2000, AWAIT_US = 10000 };

static char home[] = "/tmp/gvisor-probe-XXXXXX";
static char *template_dir, *runsc, *count;

static void put(const char *path, const char *text, unsigned mode)
{
    struct err e = ERR_INIT;
    is_int(file_replace(path, text, strlen(text), mode, &e), 0, "%s: %s", path, e.msg);
}

static void put_script(const char *end)
{
    char *text auto_free = str_printf("#!/bin/sh\nprintf x >>%s\n%s\n", count, end);
    unlink(count);
    put(runsc, text, 0700);
}

static size_t starts(void)
{
    struct buf text auto_buf = BUF_INIT;
    return file_read(count, 64, &text, NULL) == 0 ? text.len : 0;
}

static int probe(struct err *e)
{
    *e = ERR_INIT;
    return probe_gvisor(runsc, template_dir, e);
}

static void test_success(void)
{
    struct err e;
    put_script("exit 0");
    is_int(probe(&e), 0, "it works: %s", e.msg);
    is_int(probe(&e), 0, "still: %s", e.msg);
    is_int(starts(), 1, "and was not tried again");
}

// As the runsc of a sandbox: a host may refuse what only the latter would get.
static void test_what_runsc_sees(void)
{
    struct err e;
    put_script("grep -q '^MemTotal: 65536 kB' /proc/meminfo || { echo memory >&2; exit 1; }\n"
               "[ -z \"$(ls /sys/fs/cgroup)\" ] || { echo groups >&2; exit 1; }\n"
               "for a; do case $a in --panic-log=*) echo x >${a#*=} && exit 0;; esac; done\n"
               "echo no log >&2; exit 1");
    is_int(probe(&e), 0, "the same as a sandbox's: %s", e.msg);
}

static void test_failure(void)
{
    struct err e;
    put_script("echo no such wall >&2; exit 1");
    is_int(probe(&e), -1, "it does not work");
    ok(strstr(e.msg, "no such wall"), "and says why: %s", e.msg);
    is_int(probe(&e), -1, "it is remembered for a while");
    ok(strstr(e.msg, "no such wall"), "with its reason: %s", e.msg);
    is_int(starts(), 1, "without another try");
}

// A second probe runs beside the daemon's loop, which goes by the old result.
static void test_again(void)
{
    struct err e;
    char *gate auto_free = str_printf("%s/gate", home);
    char *script auto_free =
        str_printf("[ -e %s ] || { echo no such wall >&2; exit 1; }; read -r word <%s", gate, gate);
    put_script(script);
    is_int(probe(&e), -1, "it does not work");
    is_int(mkfifo(gate, 0600), 0, "the next try takes long");
    probe__expire();
    is_int(probe(&e), -1, "the old result counts meanwhile");
    ok(strstr(e.msg, "no such wall"), "with its reason: %s", e.msg);
    is_int(probe(&e), -1, "still");
    int fd = open(gate, O_WRONLY | O_CLOEXEC); // waits until the script reads
    ok(fd >= 0 && write(fd, "x\n", 2) == 2 && close(fd) == 0, "it ends");
    for (int i = 0; i < AWAIT_MAX && probe(&e) < 0; i++)
        usleep(AWAIT_US);
    is_int(probe(&e), 0, "the new result counts: %s", e.msg);
    is_int(starts(), 2, "of one more try");
    unlink(gate);
}

static int count_entries(const char *dir)
{
    int found = 0;
    DIR *entries = opendir(dir);
    for (const struct dirent *entry; entries && (entry = readdir(entries));)
        found += entry->d_name[0] != '.';
    if (entries)
        closedir(entries);
    return found;
}

// A killed process cannot remove what its probe has made. The next probe of this user does.
static void test_killed(void)
{
    struct err e;
    char *gate auto_free = str_printf("%s/gate", home);
    char *never auto_free = str_printf("%s/never", home);
    char *script auto_free = str_printf(
        "[ -e %s ] || exit 0; exec 9>%s; echo x >&9; read -r word <%s", gate, gate, never);
    char *tmp auto_free = str_printf("%s/tmp2", home);
    char byte;
    put_script(script);
    ok(mkdir(tmp, 0700) == 0 && mkfifo(gate, 0600) == 0 && mkfifo(never, 0600) == 0, "%s", tmp);
    setenv("TMPDIR", tmp, 1);
    pid_t pid = fork();
    if (pid == 0) {
        probe(&e);
        _exit(0);
    }
    int fd = open(gate, O_RDONLY | O_CLOEXEC);
    ok(read(fd, &byte, 1) == 1, "runsc runs, and waits until it is killed");
    is_int(count_entries(tmp), 1, "a probe runs");
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    while (read(fd, &byte, 1) > 0) // until its runsc has ended, too
        ;
    close(fd);
    unlink(gate);
    unlink(never);
    is_int(count_entries(tmp), 1, "it was killed, and its directory is left");
    is_int(probe(&e), 0, "another probe: %s", e.msg);
    is_int(count_entries(tmp), 0, "nothing is left");
}

static void test_not_run(void)
{
    struct err e;
    char *tmp auto_free = str_printf("%s/tmp", home);
    put_script("exit 0");
    setenv("TMPDIR", tmp, 1);
    is_int(probe(&e), -1, "there is no room for a bundle: %s", e.msg);
    is_int(starts(), 0, "so runsc was not started");
    is_int(mkdir(tmp, 0700), 0, "there is now");
    is_int(probe(&e), 0, "the next probe tries: %s", e.msg);
}

int main(void)
{
    if (!mkdtemp(home))
        abort();
    template_dir = str_printf("%s/template", home);
    runsc = str_printf("%s/runsc", home);
    count = str_printf("%s/count", home);
    char *parts auto_free = str_printf("%s/gvisor", template_dir);
    char *config auto_free = str_printf("%s/config.json", parts);
    mkdir(template_dir, 0700);
    mkdir(parts, 0700);
    put(config, "{\"process\": {\"args\": [\"init\"]}, \"mounts\": []}", 0600);
    test_success();
    test_what_runsc_sees();
    test_failure();
    test_again();
    test_killed();
    test_not_run();
    dir_remove(home, NULL);
    free(template_dir);
    free(runsc);
    free(count);
    return tap_done();
}
