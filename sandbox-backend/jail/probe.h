// SPDX-License-Identifier: Apache-2.0
// Find out which walls the jail can build on this host, for this user.
#pragma once

// Try each wall in a process of its own and print {"root": bool, "landlock": ABI, "walls": {"user":
// true, "mount": "why not", "uid": null, ...}}. A wall is true, or the reason why it cannot be
// built. The wall "uid" is null without root. Return the exit status.
int probe_print(void);
