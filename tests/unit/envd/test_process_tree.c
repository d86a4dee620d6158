// SPDX-License-Identifier: Apache-2.0
// Finding the processes that descend from a command, and the work that it takes.
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/envd/process/command_group.h"
#include "tests/lib/harness/tap.h"

#define FIRST_PID 1000

static size_t count_ours(const struct tree_process *list, size_t count)
{
    size_t ours = 0;
    for (size_t i = 0; i < count; i++)
        ours += list[i].ours;
    return ours;
}

static void test_family(void)
{
    struct tree_process list[] = {
        {.pid = 31, .parent = 30},              // a grandchild, listed before its parent
        {.pid = 1, .parent = 0},                //
        {.pid = 30, .parent = 20},              //
        {.pid = 20, .parent = 1, .ours = true}, // the leader
        {.pid = 21, .parent = 1, .ours = true}, // left by its parent, in the leader's group
        {.pid = 40, .parent = 21},              //
        {.pid = 50, .parent = 1},               // another command
        {.pid = 51, .parent = 50},              //
        {.pid = 60, .parent = 59},              // its parent is not listed
    };
    static const bool OURS[] = {true, false, true, true, true, true, false, false, false};
    ok(tree_mark(list, ARRAY_LEN(list)) > 0, "marked");
    for (size_t i = 0; i < ARRAY_LEN(list); i++)
        is_int(list[i].ours, OURS[i], "process %d", (int)list[i].pid);
}

// A pid that was used again while /proc was read can make parents go round.
static void test_circle(void)
{
    struct tree_process list[] = {
        {.pid = 10, .parent = 12, .ours = true},
        {.pid = 11, .parent = 10},
        {.pid = 12, .parent = 11},
        {.pid = 13, .parent = 13},
        {.pid = 14, .parent = 15},
        {.pid = 15, .parent = 14},
    };
    tree_mark(list, ARRAY_LEN(list));
    is_int(count_ours(list, ARRAY_LEN(list)), 3, "the circle of three is marked, others are not");
}

// Each process started the next one, and children are listed first: the worst order for passes.
static void test_chain(size_t count)
{
    struct tree_process *list = xcalloc(count, sizeof *list);
    for (size_t i = 0; i < count; i++) {
        pid_t pid = FIRST_PID + (pid_t)(count - i);
        list[i] = (struct tree_process){.pid = pid, .parent = pid - 1};
    }
    list[count - 1].ours = true;
    size_t steps = tree_mark(list, count);
    ok(steps <= TREE_STEPS_MAX * count, "%zu processes in a chain: %zu steps", count, steps);
    is_int(count_ours(list, count), count, "all are marked");
    free(list);
}

// All children of one process that is not ours: nothing is marked, and each is looked at.
static void test_strangers(size_t count)
{
    struct tree_process *list = xcalloc(count, sizeof *list);
    for (size_t i = 0; i < count; i++)
        list[i] = (struct tree_process){.pid = FIRST_PID + (pid_t)i, .parent = 1};
    size_t steps = tree_mark(list, count);
    ok(steps <= TREE_STEPS_MAX * count, "%zu strangers: %zu steps", count, steps);
    is_int(count_ours(list, count), 0, "none is marked");
    free(list);
}

int main(void)
{
    test_family();
    test_circle();
    test_chain(256);
    test_chain(1024);
    test_strangers(256);
    test_strangers(32768);
    return tap_done();
}
