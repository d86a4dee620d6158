// SPDX-License-Identifier: Apache-2.0
// A machine whose guest consists of processes of the host, below one cubby-nest (nest/nest.h). The
// drivers bubblewrap and none differ in what cubby-nest is told to start.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/drivers/driver.h"
#include "sandbox-backend/drivers/host/core.h"

#define NESTED_LOG     "nest.log"
#define NESTED_LOOK_MS 10 // envd listens within some tens of milliseconds
#define NESTED_LEVELS  16 // generations of processes that are measured

struct nested {
    struct machine_core core; // first: the daemon's pointer to it
    int go;                   // owned; the guest's name starts it; -1: it has started
};

// The parts of one guest. All are borrowed, until nested_start returns.
struct nested_start {
    const char *const *args;     // NULL-terminated: of cubby-nest, without its name and descriptors
    const char *const *operands; // NULL-terminated: the program that it starts, and its arguments
    bool has_card;               // a network card and cubby-netd; else cubby-nest serves vm.net
    struct cgroup_limits limits;
};

// Make a machine whose functions are those of `kind`, which has nested_on_limited and nested_fini.
struct nested *nested_new(const struct core_kind *kind, uv_loop_t *loop,
                          const struct machine_spec *spec, machine_ready_cb on_ready,
                          machine_exit_cb on_exit, void *ctx);
// Start cubby-nest and the network processes. The guest starts when its control groups are there.
int nested_start(struct nested *n, const struct nested_start *start, struct err *e);
// driver.adopt, for a machine of nested_new.
void nested_adopt(struct nested *n, const json_t *record);

// Return the memory of the processes below cubby-nest, in bytes (core_kind.memory_bytes). Only for
// a host that has no control group to count it: of many processes, only some are measured.
int64_t nested_memory_bytes(const struct machine_core *core);
// core_kind.kill, limited, late, close and fini.
void nested_kill(struct machine_core *core);
void nested_on_limited(struct machine_core *core);
const char *nested_why_late(const struct machine_core *core);
int nested_close(struct machine_core *core);
void nested_fini(struct machine_core *core);

// Read the size of a template, which any driver may run: cpus, memory_mb, disk_mb. ERR_NOT_FOUND.
int nested_facts(const char *template_dir, struct machine_facts *out, struct err *e);

// The members of struct core_kind that the drivers above cubby-nest share.
#define NESTED_KIND(start_limit_ms)                                                               \
    .member = "nest", .log = NESTED_LOG, .memory_is_shared = true, .memory_of_group = true,       \
    .memory_bytes = nested_memory_bytes, .child_levels = NESTED_LEVELS, .ends_others = true,      \
    .start_ms = (start_limit_ms), .look_ms = NESTED_LOOK_MS, .late = nested_why_late,             \
    .kill = nested_kill, .first_ends = true, .limited = nested_on_limited, .close = nested_close, \
    .fini = nested_fini
