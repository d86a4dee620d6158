// SPDX-License-Identifier: Apache-2.0
// A template's disk from a file that has an ext4 file system.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/drivers/host/tool.h"

// Make TEMPLATE_DISK in tool->cwd of the file: move it there, or copy it if `keeps`. *disk_mb: in,
// the size that is wanted; out, the size of the new file, which may be larger. The file system
// itself keeps its size. ERR_INVALID if the file is no ext4 file system.
int disk_file_take(const char *file, bool keeps, const struct tool *tool, int64_t *disk_mb,
                   struct err *e);
// Move a sparse file, also from another file system, to `name` in tool->cwd.
int disk_file_move(const char *file, const char *name, const struct tool *tool, struct err *e);
