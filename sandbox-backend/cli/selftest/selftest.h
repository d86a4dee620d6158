// SPDX-License-Identifier: Apache-2.0
// Types and functions that the files of `cubby selftest` share. The test has a state directory and
// a daemon of its own, so it touches no sandbox of the user. A step is one function; selftest.c has
// the table of steps.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/cli/connection.h"

#define SELFTEST_TTL_S 600 // of each sandbox: a test that is killed leaves none for longer

struct selftest {
    struct connection c;
    bool is_connected;
    char *user_home;      // owned; the state directory that has the templates
    char *home;           // owned; the test's own, below it
    const char *template; // borrowed
    const char *tier;     // borrowed; NULL: the daemon chooses
    char *id;             // owned; the sandbox under test, NULL before the step that creates it
    char *snapshot;       // owned; of the sandbox under test, or NULL
    json_t *sandbox;      // owned; what its creation answered
    json_t *times;        // owned; {"sequentialMs": [..], "burstMs": [..], "forkMs": [..], ..}
    bool python;          // the template has a Python kernel
};

// A step appends what it saw to `said`. It returns 0 after a success, 1 when this host or template
// cannot do it (`said` has the reason), and -1 with `e` after a failure.
#define STEP_SKIPPED 1
typedef int (*selftest_step)(struct selftest *t, struct buf *said, struct err *e);

double selftest_ms(void); // a monotonic clock in milliseconds
// Add a time to the list of that name in t->times.
void selftest_time(struct selftest *t, const char *list, double ms);
// Return the median of a list of t->times; 0 when it is empty.
double selftest_median(const struct selftest *t, const char *list);

// ---- home.c: the test's state directory and daemon

int home_begin(struct selftest *t, struct err *e);
// End the daemon with its sandboxes, and remove the directory. Call it also after a failed begin.
int home_end(struct selftest *t, struct err *e);
int home_connect(struct selftest *t, struct err *e);
// Kill the daemon with SIGKILL, and return when it has ended. Its sandboxes go on.
int home_kill_daemon(struct selftest *t, struct err *e);

// ---- guest.c: blocking calls into a sandbox

// Run a shell command and append its standard output to `out`, which may be NULL. Any end but exit
// status 0 is an error, which has the last line that the command wrote.
int guest_run(struct selftest *t, const char *id, const char *command, struct buf *out,
              struct err *e);
// The same, and compare the output without its last newline.
int guest_expect(struct selftest *t, const char *id, const char *command, const char *wanted,
                 struct err *e);
int guest_write(struct selftest *t, const char *id, const char *path, const struct buf *data,
                struct err *e);
int guest_read(struct selftest *t, const char *id, const char *path, struct buf *out,
               struct err *e);
// Run code in the Python kernel. `result` gets the text of its last expression, and what it
// printed.
int guest_python(struct selftest *t, const char *id, const char *code, struct buf *result,
                 struct err *e);

// ---- starts.c: creates and forks, measured up to a command's first output

// Create `count` sandboxes at once, and run a command in each as soon as it is there. Add a time
// from the request to the output of each to t->times. `keep`: the id of the first is kept there
// (new string) and the others are killed; NULL: all are killed.
int starts_create(struct selftest *t, int count, const char *list, char **keep, struct err *e);
int starts_fork(struct selftest *t, int count, struct buf *said, struct err *e);

// ---- the steps
int step_daemon(struct selftest *t, struct buf *said, struct err *e);
int step_create(struct selftest *t, struct buf *said, struct err *e);
int step_exec(struct selftest *t, struct buf *said, struct err *e);
int step_files(struct selftest *t, struct buf *said, struct err *e);
int step_python(struct selftest *t, struct buf *said, struct err *e);
int step_pause(struct selftest *t, struct buf *said, struct err *e);
int step_hibernate(struct selftest *t, struct buf *said, struct err *e);
int step_wake(struct selftest *t, struct buf *said, struct err *e);
int step_snapshot(struct selftest *t, struct buf *said, struct err *e);
int step_rollback(struct selftest *t, struct buf *said, struct err *e);
int step_fork(struct selftest *t, struct buf *said, struct err *e);
int step_burst(struct selftest *t, struct buf *said, struct err *e);
int step_network(struct selftest *t, struct buf *said, struct err *e); // network.c
int step_walls(struct selftest *t, struct buf *said, struct err *e);   // walls.c
int step_adopt(struct selftest *t, struct buf *said, struct err *e);
int step_pool(struct selftest *t, struct buf *said, struct err *e);
int step_end(struct selftest *t, struct buf *said, struct err *e);

// ---- report.c

// Return the facts about this host that a report has: processor, memory, kernel, distribution,
// QEMU. No name of the host or of a user is among them. New reference.
json_t *report_host(void);
// Measure the start of QEMU without a guest, up to the answer of its monitor, in milliseconds; the
// times go to t->times. -1 when QEMU cannot be run.
double report_bare_qemu(struct selftest *t);
// Print the report for people.
void report_print(const json_t *report);
