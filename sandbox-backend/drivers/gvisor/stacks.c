// SPDX-License-Identifier: Apache-2.0
// Reading the state of a guest from the stacks of its sentry's threads.
#include "sandbox-backend/drivers/gvisor/stacks.h"

#include <stdbool.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"

// Of pkg/sentry/kernel/task_run.go. The second argument exists to be visible in stacks: it is the
// task's number in the guest's first PID namespace.
#define RUN     "kernel.(*Task).run("
#define STOP    "kernel.(*Task).doStop("
#define FIRST   ", 0x1)"
#define WAITING " [sync.Cond.Wait" // in the first line: "goroutine 7 [sync.Cond.Wait, 2 minutes]:"

static bool is_first(const char *stack, size_t len)
{
    const char *run = memmem(stack, len, RUN, strlen(RUN));
    const char *end = run ? memchr(run, '\n', len - (size_t)(run - stack)) : NULL;
    return end && memmem(run, (size_t)(end - run), FIRST, strlen(FIRST));
}

static bool waits_in_stop(const char *stack, size_t len)
{
    const char *end = memchr(stack, '\n', len);
    return end && memmem(stack, (size_t)(end - stack), WAITING, strlen(WAITING)) &&
           memmem(stack, len, STOP, strlen(STOP));
}

enum stacks_guest stacks_guest(const char *text)
{
    for (const char *stack = text, *next; stack; stack = next) {
        const char *end = strstr(stack, "\n\n");
        size_t len = end ? (size_t)(end - stack) : strlen(stack);
        next = end ? end + 2 : NULL;
        if (is_first(stack, len))
            return waits_in_stop(stack, len) ? STACKS_STANDS : STACKS_RUNS;
    }
    return STACKS_UNKNOWN;
}
