// SPDX-License-Identifier: Apache-2.0
// The plan: a table at the beginning of the file of folded memory. It says which pages of which
// process are where in the file. The file's layout:
//
//   0             left free: the template build has a mark there
//   PLAN_AT       struct plan_head, then the runs
//   PLAN_DATA_AT  the pages
#pragma once
#include <stdint.h>
#include <sys/types.h>

#include "sandbox-backend/base/err.h"

#define PLAN_PAGE     4096
#define PLAN_AT       PLAN_PAGE
#define PLAN_DATA_AT  (1 << 20)
#define PLAN_RUNS_MAX 16384

// Consecutive pages of one process.
struct plan_run {
    int32_t pid;
    int32_t protection; // PROT_*
    uint64_t address;
    uint64_t length; // bytes
    uint64_t offset; // in the file
};

struct plan_head {
    uint64_t magic;
    uint64_t count;
};

struct plan {
    int file;
    uint64_t end; // end of the pages in the file
    uint64_t max; // limit of `end`
    size_t count;
    struct plan_run *runs; // owned; PLAN_RUNS_MAX
};

// A new plan, for a file that is open for writing. max: bytes.
void plan_init(struct plan *p, int file, uint64_t max);
// Append pages of a process to the file, and their run to the plan. ERR_LIMIT: the file or the plan
// is full.
int plan_add(struct plan *p, struct plan_run run, const void *pages, struct err *e);
int plan_write(struct plan *p, struct err *e);          // call this after the last plan_add
int plan_read(struct plan *p, int file, struct err *e); // reads the plan of such a file
void plan_fini(struct plan *p);
