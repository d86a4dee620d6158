// SPDX-License-Identifier: Apache-2.0
// Fault points: numbered points at which a test build ends its own process as SIGKILL would. A test
// then examines what a daemon that was killed there leaves behind. Other builds have none.
//
// A point is named "<operation>.<number>", with numbers in the order of the operation's steps. A
// build with -DCUBBY_FAULTS reads the file that CUBBY_FAULT names at each point. A line
// "<name>:<n>" in it ends the process at the nth pass of that point from then on; without the file
// the process goes on. If the file <that name>.trace exists, it gets the name of each point passed,
// one on a line.
#pragma once

#ifdef CUBBY_FAULTS
void fault_point(const char *name);
#define FAULT(name) fault_point(name)
#else
#define FAULT(name) ((void)0)
#endif
