// SPDX-License-Identifier: Apache-2.0
// Which walls this host can build for whoever asks.
#pragma once

// Tries each in a process of its own and prints {"root": bool, "landlock": ABI, "walls": {"user":
// true, "mount": "why not", "uid": null, ...}}; null: it is not for this user. The exit status.
int probe_print(void);
