// SPDX-License-Identifier: Apache-2.0
// Reading the state of a guest from the stacks of its sentry's threads.
#include "sandbox-backend/drivers/gvisor/stacks.h"

#include <stdlib.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "tests/lib/harness/tap.h"

#define KERNEL "gvisor.dev/gvisor/pkg/sentry/kernel."
#define OTHER                                                                           \
    "goroutine 1 [select]:\ngvisor.dev/gvisor/runsc/boot.(*Loader).WaitExit(0xc0001)\n" \
    "\tgvisor.dev/gvisor/runsc/boot/loader.go:1 +0x1\n\n"
#define STOP                                                                               \
    "sync.(*Cond).Wait(0xc0002)\n\tsync/cond.go:71 +0x85\n" KERNEL "(*Task).doStop(0xc0) " \
    "\n\tgvisor.dev/gvisor/pkg/sentry/kernel/task_run.go:130 +0x1\n"
#define CALL KERNEL "(*Task).block(0xc0, 0x1)\n\tgvisor.dev/gvisor/pkg/sentry/kernel/b.go:1 +0x1\n"

// A goroutine of the guest's task `number`.
static char *task(const char *wait, const char *frames, const char *number)
{
    return str_printf("goroutine 77 [%s]:\n%s" KERNEL
                      "(*Task).run(0xc0, %s)\n\tgvisor.dev/gvisor/pkg/sentry/kernel/task_run.go:84 "
                      "+0x1\ncreated by " KERNEL "(*Task).Start in goroutine 1\n\n",
                      wait, frames, number);
}

static void try(const char *wait, const char *frames, enum stacks_guest wanted, const char *what)
{
    char *first auto_free = task(wait, frames, "0x1");
    char *second auto_free = task("sync.Cond.Wait", STOP, "0x11");
    char *third auto_free = task("select", CALL, "0x2");
    char *text auto_free = str_printf("%s%s%s%s", OTHER, second, first, third);
    is_int(stacks_guest(text), wanted, "%s", what);
}

int main(void)
{
    try("sync.Cond.Wait", STOP, STACKS_STANDS, "it stands");
    try("sync.Cond.Wait, 12 minutes", STOP, STACKS_STANDS, "it has stood for long");
    try("runnable", STOP, STACKS_RUNS, "it was let go on, and has not run yet");
    try("sync.Mutex.Lock", STOP, STACKS_RUNS, "it was let go on, and waits for a lock");
    try("select", CALL, STACKS_RUNS, "it is in a call");
    try("running", "", STACKS_RUNS, "it runs");
    try("sync.Cond.Wait", CALL, STACKS_RUNS, "another condition");
    is_int(stacks_guest(OTHER), STACKS_UNKNOWN, "no task");
    is_int(stacks_guest(""), STACKS_UNKNOWN, "nothing");
    return tap_done();
}
