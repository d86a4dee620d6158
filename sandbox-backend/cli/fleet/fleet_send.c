// SPDX-License-Identifier: Apache-2.0
// The way from a drain to `cubby fleet receive` on the other host: a command, ssh by default.
//
// The archive goes through a pipe. Bytes that are left in the pipe when the command has ended never
// reached the other host, so it cannot have the sandbox: the end of the archive makes it whole.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/version.h"
#include "sandbox-backend/cli/fleet/fleet.h"
#include "sandbox-backend/drivers/host/tool.h"
#include "sandbox-backend/template/move/sandbox_archive.h"

#define ANSWER_BYTES 4096
#define CHECK_MS     60000
#define FEED_BYTES   (1 << 20) // of one sendfile

// ---- 1. the command

// The begin of a text that may be anything, for a person. New string.
static char *first_line(const struct buf *text)
{
    const char *from = buf_str(text);
    char *line = xstrndup(from, strcspn(from, "\r\n"));
    for (char *c = line; *c; c++)
        *c = *c >= ' ' && *c <= '~' ? *c : '?';
    return line;
}

// Run `cubby fleet receive WORDS` there, with `in` as its input. Return its answer, an object, or
// NULL.
static json_t *run_there(const char *via, const char *words, int in, int timeout_ms, struct err *e)
{
    char *script auto_free = str_printf("exec %s fleet receive %s", via, words);
    const char *argv[] = {"sh", "-c", script, NULL};
    int out auto_close = memfd_create("answer", MFD_CLOEXEC);
    const struct tool tool = {.argv = argv,
                              .package = "dash",
                              .in = in,
                              .out = out,
                              .log = 2,
                              .keep = -1,
                              .timeout_ms = timeout_ms};
    struct buf text auto_buf = BUF_INIT;
    if (out < 0) {
        err_sys(e, errno, "memfd_create");
        return NULL;
    }
    struct err why = ERR_INIT;
    tool_run(&tool, &why);
    if (lseek(out, 0, SEEK_SET) == 0 && fd_read_all(out, ANSWER_BYTES, &text, NULL) == 0) {
        json_t *answer = json_parse(buf_str(&text), text.len, NULL);
        if (json_is_object(answer))
            return answer;
        json_decref(answer);
    }
    char *said auto_free = first_line(&text);
    if (why.code == ERR_CANCELED)
        *e = why;
    else if (*said)
        err_set(e, ERR_UNAVAILABLE,
                "\"%.120s fleet receive\" must print only its answer; it printed \"%.60s\"", via,
                said);
    else
        err_set(e, ERR_UNAVAILABLE, "\"%.120s fleet receive\" gave no answer%s%.80s", via,
                err_is(&why) ? ": " : "", why.msg);
    return NULL;
}

static const char *text_of(const json_t *answer, const char *key)
{
    const char *text = json_string_value(json_object_get(answer, key));
    return text ? text : "";
}

// ---- 2. whether the other side can receive

int fleet_send_check(const char *via, const char *node, struct err *e)
{
    char *words auto_free = str_printf("--check %s", node);
    json_t *answer = run_there(via, words, 0, CHECK_MS, e);
    if (!answer)
        return err_wrap(e, "node %s cannot receive, so nothing was moved or changed", node);
    int64_t format = json_integer_value(json_object_get(answer, "format"));
    int result = 0;
    if (!json_is_true(json_object_get(answer, "ready")))
        result = err_set(e, ERR_PRECONDITION, "%s", text_of(answer, "why"));
    else if (format != SANDBOX_ARCHIVE_FORMAT)
        result = err_set(e, ERR_PRECONDITION,
                         "its Cubby %.20s reads another format of archives than %s writes here; "
                         "install the same version there",
                         text_of(answer, "version"), CUBBY_VERSION);
    json_decref(answer);
    return result == 0
               ? 0
               : err_wrap(e, "node %s cannot receive, so nothing was moved or changed", node);
}

// ---- 3. one sandbox

// Write the archive into the pipe, as a process of its own. It ends with this one.
static void __attribute__((noreturn)) feed(int archive, int pipe_end)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_DFL);
    ssize_t n;
    do
        n = sendfile(pipe_end, archive, NULL, FEED_BYTES);
    while (n > 0 || (n < 0 && errno == EINTR));
    _exit(n < 0);
}

// Close what the feeder does not need: the locks of this command, and the end that is read.
static void close_others(int archive, int pipe_end)
{
    int low = archive < pipe_end ? archive : pipe_end;
    int high = archive < pipe_end ? pipe_end : archive;
    if (low > STDERR_FILENO + 1)
        close_range(STDERR_FILENO + 1, (unsigned)low - 1, 0);
    if (high > low + 1)
        close_range((unsigned)low + 1, (unsigned)high - 1, 0);
    close_range((unsigned)high + 1, ~0U, 0);
}

// Return the pid, or -1. *out: the end to read.
static pid_t start_feeding(const char *path, int *out, struct err *e)
{
    int ends[2];
    int archive auto_close = open(path, O_RDONLY | O_CLOEXEC);
    if (archive < 0)
        return err_sys(e, errno, "open %s", path);
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_sys(e, errno, "pipe");
    pid_t pid = fork();
    if (pid == 0) {
        close_others(archive, ends[1]);
        feed(archive, ends[1]);
    }
    int sys = errno;
    close(ends[1]);
    *out = ends[0];
    return pid < 0 ? err_sys(e, sys, "fork") : pid;
}

// Tell whether the whole archive left the pipe. A byte that is read here is one that nobody else
// can read any more.
static bool all_was_read(int in, pid_t feeder)
{
    char byte;
    int status = 0;
    ssize_t n;
    do
        n = read(in, &byte, 1);
    while (n < 0 && errno == EINTR);
    if (n != 0)
        kill(feeder, SIGKILL);
    while (waitpid(feeder, &status, 0) < 0 && errno == EINTR)
        ;
    return n == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static enum sent judge(const json_t *answer, bool whole, struct err *e)
{
    const json_t *taken = json_object_get(answer, "taken");
    if (json_is_true(taken))
        return SENT_TAKEN;
    if (!whole && !json_is_boolean(taken))
        return SENT_NOTHING;
    if (!json_is_boolean(taken))
        return SENT_UNSURE;
    *e = ERR_INIT;
    err_set(e, ERR_PRECONDITION, "%s", text_of(answer, "why"));
    return json_is_true(json_object_get(answer, "barred")) ? SENT_REFUSED : SENT_NOTHING;
}

enum sent fleet_send(const char *via, const char *archive, const struct fleet_parcel *p,
                     struct err *e)
{
    int in auto_close = -1;
    char *words auto_free =
        str_printf("%s--node %s --move %s %s", p->wake ? "--wake " : "", p->node, p->move, p->id);
    pid_t feeder = start_feeding(archive, &in, e);
    if (feeder < 0)
        return SENT_NOTHING;
    json_t *answer = run_there(via, words, in, 0, e);
    bool whole = all_was_read(in, feeder);
    enum sent result = judge(answer, whole, e);
    json_decref(answer);
    return result;
}
