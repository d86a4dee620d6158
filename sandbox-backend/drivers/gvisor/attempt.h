// SPDX-License-Identifier: Apache-2.0
// A failed attempt to make a template's part for gVisor, so that `cubby setup` does not repeat it
// in vain.
//
// The record is a file of the template's directory, and goes with the template:
//   gvisor-attempt.json   {"format": 1, "reason": "...", "conditions": "..."}
//
// It holds while the conditions are the same: Cubby, runsc, mkfs.erofs, the host's kernel and the
// user. Settings of the host, such as a sysctl, are not among them: after a change there, a user
// runs `cubby template finish`.
#pragma once
#include "sandbox-backend/base/err.h"

#define ATTEMPT_FILE "gvisor-attempt.json"

// Remember why the template in `dir` gets no part. Do nothing if the reason may be gone the next
// time: the end of a time limit, a full disk, an interruption, a tool that was killed. Errors are
// ignored; the attempt is then made again.
void attempt_failed(const char *dir, const struct err *why);
// Forget it.
void attempt_forget(const char *dir);
// Return why the last attempt failed, if another one would be made under the same conditions; else
// NULL. New string.
char *attempt_reason(const char *dir);
