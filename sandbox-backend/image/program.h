// SPDX-License-Identifier: Apache-2.0
// Tells if a file is a program for the guest's kernel.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#define PROGRAM_HEAD 20 // bytes that tell it

// Return whether a file that begins with `head` is an ELF file for this processor, or a script.
bool program_runs(const void *head, size_t len);
