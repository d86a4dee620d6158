// SPDX-License-Identifier: Apache-2.0
// Names of moves, and the notes about them.
#include "sandbox-backend/daemon/sandbox/arrivals.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "tests/lib/harness/tap.h"

#define ID    "a1b2c3d4e5f6g7h8i9j0"
#define OTHER "b1b2c3d4e5f6g7h8i9j0"

static enum arrival_note note_of(const struct store *store, const char *id, const char *move)
{
    struct err e = ERR_INIT;
    enum arrival_note note = ARRIVAL_NEW;
    if (arrivals_find(store, id, move, &note, &e) < 0)
        ok(false, "%s", e.msg);
    return note;
}

static void write_note(const struct store *store, const char *move, enum arrival_note note)
{
    struct err e = ERR_INIT;
    if (arrivals_write(store, ID, move, note, &e) < 0)
        ok(false, "%s", e.msg);
}

static void test_names(void)
{
    static const char *const INVALID[] = {
        "",
        "1",
        "-0123456789abcdef",
        "0-0123456789abcdef",
        "1-0123456789abcde",
        "1-0123456789abcdeg",
        "1-0123456789abcdef0",
        "x-0123456789abcdef",
        "99999999999999999999-0123456789abcdef",
        "1-0123456789abcdef refused",
    };
    char *first auto_free = arrivals_move_after(NULL);
    char *second auto_free = arrivals_move_after(first);
    char *again auto_free = arrivals_move_after(first);
    char *after auto_free = arrivals_move_after("41-0123456789abcdef");
    ok(arrivals_move_is_valid(first) && str_starts(first, "1-"), "the first: %s", first);
    ok(str_starts(second, "2-") && str_starts(again, "2-") && strcmp(second, again) != 0,
       "the second differs from another one: %s, %s", second, again);
    ok(str_starts(after, "42-"), "the number grows: %s", after);
    ok(!arrivals_move_is_valid(NULL), "no name is no name");
    for (size_t i = 0; i < ARRAY_LEN(INVALID); i++)
        ok(!arrivals_move_is_valid(INVALID[i]), "\"%s\" is no name", INVALID[i]);
}

static void test_notes(const struct store *store)
{
    char *move auto_free = arrivals_move_after(NULL);
    char *twin auto_free = arrivals_move_after(NULL);
    char *later auto_free = arrivals_move_after(move);
    ok(note_of(store, ID, move) == ARRIVAL_NEW, "nothing is known at first");
    write_note(store, move, ARRIVAL_OFFERED);
    ok(note_of(store, ID, move) == ARRIVAL_OFFERED, "it is offered");
    ok(note_of(store, ID, twin) == ARRIVAL_REFUSED,
       "another one of the same number comes too late");
    ok(note_of(store, ID, later) == ARRIVAL_NEW, "a later one may come");
    ok(note_of(store, OTHER, twin) == ARRIVAL_NEW, "another sandbox has its own");
    write_note(store, move, ARRIVAL_TAKEN);
    ok(note_of(store, ID, move) == ARRIVAL_TAKEN, "it is taken");
    write_note(store, later, ARRIVAL_REFUSED);
    ok(note_of(store, ID, later) == ARRIVAL_REFUSED, "the later one is refused");
    ok(note_of(store, ID, move) == ARRIVAL_TAKEN, "the first is still known as taken");
}

static void test_unreadable(const struct store *store)
{
    char *path auto_free = str_printf("%s/arrivals/" OTHER, store->home);
    struct err e = ERR_INIT;
    enum arrival_note note;
    ok(dir_make(path, 0700, &e) == 0, "a directory in place of the file");
    ok(arrivals_find(store, OTHER, "1-0123456789abcdef", &note, &e) < 0 && err_is(&e),
       "what cannot be read is an error: %s", e.msg);
}

static void test_damage(const struct store *store)
{
    static const char *const TEXTS[] = {"", "x\n", "1-0123456789abcdef taken",
                                        "1-0123456789abcdef\n", "1-0123456789abcdef gone\n"};
    char *path auto_free = str_printf("%s/arrivals/" ID, store->home);
    for (size_t i = 0; i < ARRAY_LEN(TEXTS); i++) {
        struct err e = ERR_INIT;
        enum arrival_note note;
        ok(file_write_atomic(path, TEXTS[i], strlen(TEXTS[i]), 0600, &e) == 0, "a damaged note");
        ok(arrivals_find(store, ID, "2-0123456789abcdef", &note, &e) < 0, "is an error: %s", e.msg);
    }
    ok(unlink(path) == 0, "it is removed");
}

static void test_many(const struct store *store)
{
    char *taken auto_free = arrivals_move_after(NULL);
    char *refused auto_free = arrivals_move_after(taken);
    char *move auto_free = arrivals_move_after(refused);
    char *path auto_free = str_printf("%s/arrivals/" ID, store->home);
    struct buf text auto_buf = BUF_INIT;
    write_note(store, taken, ARRIVAL_TAKEN);
    write_note(store, refused, ARRIVAL_REFUSED);
    for (int i = 0; i < 40; i++) {
        char *before auto_free = move;
        write_note(store, before, ARRIVAL_REFUSED);
        move = arrivals_move_after(before);
    }
    ok(note_of(store, ID, taken) == ARRIVAL_TAKEN, "what was taken is never forgotten");
    ok(note_of(store, ID, refused) == ARRIVAL_REFUSED, "what is forgotten comes too late");
    ok(note_of(store, ID, move) == ARRIVAL_NEW, "the next one may come: %s", move);
    ok(file_read(path, 1024, &text, NULL) == 0, "the file stays small");
}

int main(void)
{
    static struct store store; // too large for the stack
    char folder[] = "/tmp/cubby-test-arrivals.XXXXXX";
    if (!mkdtemp(folder))
        return 1;
    store.home = folder;
    test_names();
    test_notes(&store);
    test_unreadable(&store);
    test_damage(&store);
    test_many(&store);
    dir_remove(folder, NULL);
    return tap_done();
}
