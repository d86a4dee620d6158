// SPDX-License-Identifier: Apache-2.0
// Notes about the moves of sandboxes to this node (docs/fleet.md): <home>/arrivals/<id> has a line
// "MOVE WORD" for each move of the sandbox that reached this node.
//
// A move has a name, "<number>-<random>". The node that has the sandbox makes it when the move
// begins (sleep/move.h), and the number grows with each move of the sandbox. The name tells whether
// a sandbox that is here came by the move that is asked about, or is another copy. A move that was
// refused stays refused: its archive may still be under way when the other node lets the sandbox
// run again. So does an earlier move than one that is noted. The files stay, as those of moved.h.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/err.h"

struct store;

enum arrival_note {
    ARRIVAL_NEW,     // nothing is known of the move
    ARRIVAL_OFFERED, // it is being taken. If the daemon ends then, the next one drops what is here
    ARRIVAL_TAKEN,
    ARRIVAL_REFUSED, // or a later move of the sandbox is known
};

bool arrivals_move_is_valid(const char *move);
// Make the name of the move after `before` (NULL: there was none). New string.
char *arrivals_move_after(const char *before);

// Look up a valid move of a valid id. A file that is damaged or cannot be read is an error: nothing
// may be taken.
int arrivals_find(const struct store *store, const char *id, const char *move,
                  enum arrival_note *out, struct err *e);
// Write what is known now, and sync it to the disk. Of refused moves, the file keeps the last.
int arrivals_write(const struct store *store, const char *id, const char *move,
                   enum arrival_note note, struct err *e);
