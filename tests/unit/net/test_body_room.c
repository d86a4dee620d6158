// SPDX-License-Identifier: Apache-2.0
// Room for bodies: the bytes that are counted, and the share of one name.
#include "sandbox-backend/net/body_room.h"
#include "tests/lib/harness/tap.h"

#define MOST 40

static void test_names(void)
{
    struct body_room room = {.max = 100, .small = 5};
    struct body_claim a, b, other, none, too_much;
    char name[] = "a";
    ok(body_claim_take(&a, &room, name, 40, MOST), "there is room");
    name[0] = 'x';
    ok(!body_claim_take(&too_much, &room, "a", 11, MOST), "but not for more than half, by name");
    ok(body_claim_take(&b, &room, "a", 10, MOST), "which may be taken whole");
    ok(body_claim_take(&other, &room, "other", 30, MOST), "another one has room");
    ok(!body_claim_take(&none, &room, NULL, 21, MOST), "all of it is not there any more");
    ok(body_claim_take(&none, &room, NULL, 20, MOST), "without a name what is left is to be had");
    ok(!body_claim_take(&too_much, &room, "third", 6, MOST), "now it is full");
    body_claim_give(&too_much);
    is_int(room.used, 100, "which was refused has nothing to give back");
    body_claim_give(&a);
    body_claim_give(&a);
    is_int(room.used, 60, "and what was given back is given back once");
    ok(body_claim_take(&a, &room, "a", 40, MOST), "room that was given back is there again");
    body_claim_give(&a);
    body_claim_give(&b);
    body_claim_give(&other);
    body_claim_give(&none);
    ok(room.used == 0 && LIST_EMPTY(&room.shares), "nothing is left");
}

static void test_lengths(void)
{
    struct body_room room = {.max = 100, .small = 5};
    struct body_claim small, unknown, third, long_one;
    ok(body_claim_take(&small, &room, "a", 5, MOST), "what is small");
    is_int(room.used, 0, "is not counted");
    ok(body_claim_take(&long_one, &room, "a", MOST + 1, MOST), "nor what will be refused");
    is_int(room.used, 0, "by its length");
    ok(body_claim_take(&unknown, &room, "a", -1, MOST), "one of an unknown length");
    is_int(room.used, MOST, "counts as the most there can be");
    ok(!body_claim_take(&third, &room, "a", -1, MOST), "and a second one does not fit");
    ok(body_claim_take(&third, &room, "a", 0, MOST), "but what is small does");
    body_claim_give(&small);
    body_claim_give(&unknown);
    body_claim_give(&third);
    is_int(room.used, 0, "nothing is left");
}

int main(void)
{
    test_names();
    test_lengths();
    return tap_done();
}
