// SPDX-License-Identifier: Apache-2.0
// The processes below this one.
#pragma once

// Kill all of them with SIGKILL. Each process is stopped first, so that it starts no further
// process while this function looks for those below it. A process that starts meanwhile can be
// missed, so call this again until no child is left.
void tree_kill(void);
