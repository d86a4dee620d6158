// SPDX-License-Identifier: Apache-2.0
// The processes below this one.
#pragma once

// Kill them with SIGKILL. Each is stopped first, so that it starts no further process while those
// below it are looked for. A process that starts meanwhile can be missed, so call this again until
// no child is left.
void tree_kill(void);
