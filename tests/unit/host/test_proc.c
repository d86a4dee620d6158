// SPDX-License-Identifier: Apache-2.0
// Tests what is read from /proc about this process and about a child.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/host/proc.h"
#include "tests/lib/harness/tap.h"

static char self[16];

static void test_stat(void)
{
    struct proc_stat own, child;
    pid_t pid = fork();
    if (pid == 0) {
        pause();
        _exit(0);
    }
    ok(proc_stat_read(getpid(), &own) == 0 && own.parent == getppid(), "its parent");
    ok(own.state == 'R', "it runs: %c", own.state);
    ok(proc_stat_read(pid, &child) == 0 && child.parent == getpid(), "the child's parent");
    ok(child.start_time >= own.start_time && own.start_time > 0, "when they began");
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    ok(proc_stat_read(pid, &child) < 0, "none is there any more");
}

static void test_uses(void)
{
    char dir[] = "/tmp/cubby-test-proc.XXXXXX";
    char *name auto_free = str_printf("%s/abc1", mkdtemp(dir));
    char *file auto_free = str_printf("%s/abc1/x", dir);
    struct stat st;
    json_t *names = json_object();
    dir_make(name, 0700, NULL);
    stat(dir, &st);
    ok(!proc_uses(self, dir, "abc1", NULL), "no file is open");
    int fd auto_close = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ok(proc_uses(self, dir, "abc1", names), "one is open");
    ok(json_object_size(names) == 1 && json_object_get(names, "abc1"), "the name below it");
    ok(!proc_lost_dir(self, dir, st.st_dev), "it is there");
    dir_remove(name, NULL);
    char *lost auto_free = proc_lost_dir(self, dir, st.st_dev);
    ok(str_eq(lost, name), "it is removed: %s", lost ? lost : "none");
    ok(!proc_lost_dir(self, dir, st.st_dev + 1), "not on another file system");
    json_decref(names);
    dir_remove(dir, NULL);
}

static void note_self(const char *pid, int pidfd, void *ctx)
{
    int *seen = ctx;
    seen[0]++;
    seen[1] += str_eq(pid, self) || pidfd < 0;
}

int main(void)
{
    int seen[2] = {0};
    snprintf(self, sizeof self, "%d", (int)getpid());
    char *program auto_free = proc_program(self);
    ok(str_eq(program, "test_proc"), "its program: %s", program);
    ok(proc_is_of_this_namespace(self), "its namespace");
    test_stat();
    test_uses();
    proc_each(0, note_self, seen);
    ok(seen[0] > 0 && seen[1] == 0, "all processes but itself: %d", seen[0]);
    return tap_done();
}
