// SPDX-License-Identifier: Apache-2.0
// Numbered points at which a test build ends its own process as SIGKILL would, so that a test can
// look at what a daemon leaves behind that was killed right there. Nothing in every other build.
//
// With -DCUBBY_FAULTS, CUBBY_FAULT=<name> names the point, CUBBY_FAULT=<name>:<n> its nth passing.
// A point is named "<operation>.<number>", the numbers in the order of the operation's steps; the
// test finds them in the sources.
#pragma once

#ifdef CUBBY_FAULTS
void fault_point(const char *name);
#define FAULT(name) fault_point(name)
#else
#define FAULT(name) ((void)0)
#endif
