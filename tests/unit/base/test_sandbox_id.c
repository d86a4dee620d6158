// SPDX-License-Identifier: Apache-2.0
// The form of ids, and the node's name in them.
#include "sandbox-backend/base/sandbox_id.h"

#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "tests/lib/harness/tap.h"

#define OLD "abcdefghij0123456789"

static void test_names(void)
{
    static const char *const GOOD[] = {"a", "0", "node12", "abcdefghijk"};
    static const char *const BAD[] = {"",    "A",   "a-b",          "a.b",
                                      "a b", "a\n", "abcdefghijkl", "\303\266"};
    for (size_t i = 0; i < ARRAY_LEN(GOOD); i++)
        ok(node_name_is_valid(GOOD[i]), "\"%s\" is a name", GOOD[i]);
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++)
        ok(!node_name_is_valid(BAD[i]), "\"%s\" is not a name", BAD[i]);
}

static void test_making(void)
{
    char id[SANDBOX_ID_MAX + 1], other[SANDBOX_ID_MAX + 1];
    sandbox_id_make(id, NULL);
    is_int((int)strlen(id), SANDBOX_ID_LEN, "an id without a node");
    is_int((int)sandbox_id_node_len(id), 0, "has no name");
    sandbox_id_make(id, "abcdefghijk");
    sandbox_id_make(other, "abcdefghijk");
    is_int((int)strlen(id), SANDBOX_ID_MAX, "the longest");
    is_int((int)sandbox_id_node_len(id), NODE_NAME_MAX, "its name");
    ok(strncmp(id, "abcdefghijk", NODE_NAME_MAX) == 0 && strcmp(id, other) != 0,
       "the name, and random characters");
    ok(sandbox_id_is_valid(id), "it is valid");
}

static void test_lengths(void)
{
    is_int((int)sandbox_id_len(OLD), 20, "an old id");
    is_int((int)sandbox_id_len("n1" OLD), 22, "one with a node");
    is_int((int)sandbox_id_len("n1" OLD "-client"), 22, "and a client's id");
    static const char *const NONE[] = {
        "", "-", "abc", "bcdefghij0123456789", "abcdefghijkl" OLD, "n1" OLD ".x", "N1" OLD};
    for (size_t i = 0; i < ARRAY_LEN(NONE); i++)
        is_int((int)sandbox_id_len(NONE[i]), 0, "\"%s\"", NONE[i]);
    ok(!sandbox_id_is_valid(OLD "-c"), "a client's id is no part of it");
}

static void test_foreign(void)
{
    ok(!sandbox_id_is_foreign(OLD, "a") && !sandbox_id_is_foreign(OLD, NULL),
       "an old id may be of any node");
    ok(!sandbox_id_is_foreign("a" OLD, "a"), "this node's");
    ok(sandbox_id_is_foreign("b" OLD, "a"), "another's");
    ok(sandbox_id_is_foreign("ab" OLD, "a") && sandbox_id_is_foreign("a" OLD, "ab"),
       "a name that begins alike is another");
    ok(sandbox_id_is_foreign("a" OLD, NULL), "a daemon without a name");
    ok(!sandbox_id_is_foreign("b" OLD "x.", "a") && !sandbox_id_is_foreign("nonsense", "a"),
       "what is no id is of no node");
}

int main(void)
{
    test_names();
    test_making();
    test_lengths();
    test_foreign();
    return tap_done();
}
