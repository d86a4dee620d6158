// SPDX-License-Identifier: Apache-2.0
// The descriptors of one poll(2), collected before each wait.
#pragma once
#include <assert.h>
#include <poll.h>

// The number of descriptors that netd may have open in all (main.c).
#define POLLSET_MAX 4096

struct pollset {
    int count;
    struct pollfd fds[POLLSET_MAX];
};

// Return the descriptor's index in the set, for pollset_events() after the wait.
static inline int pollset_add(struct pollset *s, int fd, short events)
{
    assert(s->count < POLLSET_MAX);
    s->fds[s->count] = (struct pollfd){.fd = fd, .events = events};
    return s->count++;
}

static inline short pollset_events(const struct pollset *s, int index)
{
    return s->fds[index].revents;
}
