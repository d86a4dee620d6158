// SPDX-License-Identifier: Apache-2.0
// The guest's outward TCP connections: by libslirp's descriptor, and by their ports and address.
#pragma once
#include "sandbox-backend/netd/outward.h"
#include "sandbox-backend/netd/pollset.h"

struct outward_list {
    struct outward items[POLLSET_MAX]; // by descriptor
    // Those of one of the guest's ports: each has descriptor + 1 of the one before, 0 ends them.
    uint16_t last[65536];
    uint16_t before[POLLSET_MAX];
};

// The connection that this SYN opens. `behind` as behind_begin has it.
void outward_list_add(struct outward_list *l, int fd, const struct packet *syn, int *behind);
void outward_list_remove(struct outward_list *l, int fd);

// NULL: there is none.
struct outward *outward_list_find(struct outward_list *l, uint16_t guest_port, uint32_t address,
                                  uint16_t port);
// Takes notice of what a frame of libslirp's to the guest acknowledges.
void outward_list_note(struct outward_list *l, const uint8_t *frame, size_t len);
