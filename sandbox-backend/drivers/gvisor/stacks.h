// SPDX-License-Identifier: Apache-2.0
// Reading the state of a guest from the stacks of its sentry's threads. The sentry has no call that
// asks whether its guest stands still; debug.Stacks is the only one whose answer shows it.
#pragma once

enum stacks_guest {
    STACKS_UNKNOWN, // the text has no stack of the guest's PID 1
    STACKS_RUNS,
    STACKS_STANDS,
};

// Read the answer of debug.Stacks, in the form of Go's runtime.Stack. The guest stands still if the
// goroutine of its PID 1 waits in Task.doStop. If it waits there no longer, but has not left the
// function yet, the guest has been let go on.
enum stacks_guest stacks_guest(const char *text);
