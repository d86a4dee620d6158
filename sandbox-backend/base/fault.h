// SPDX-License-Identifier: Apache-2.0
// Numbered points at which a test build ends its own process as SIGKILL would, so that a test can
// look at what a daemon leaves behind that was killed right there. Nothing in every other build.
//
// A point is named "<operation>.<number>", the numbers in the order of the operation's steps. With
// -DCUBBY_FAULTS the file that CUBBY_FAULT names is looked at whenever one is passed: a line in it
// "<name>:<n>" makes the nth passing of that point from now on the end; without the file nothing
// ends. The file <that name>.trace gets the name of each point that is passed, a line each, if it
// is there.
#pragma once

#ifdef CUBBY_FAULTS
void fault_point(const char *name);
#define FAULT(name) fault_point(name)
#else
#define FAULT(name) ((void)0)
#endif
