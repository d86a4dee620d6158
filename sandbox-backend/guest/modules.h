// SPDX-License-Identifier: Apache-2.0
// Loading the kernel modules that the initramfs carries.
#pragma once
#include <stddef.h>

#define MODULES_DIR  "/modules"
#define MODULES_LIST MODULES_DIR "/load" // one file name a line, dependencies first

// Loads every module of MODULES_LIST with its parameters from the kernel's command line, then
// removes the files. A module that does not load is said on the console: what it was needed for
// fails later with its own message.
void modules_load(const char *cmdline);

// The parameters that a command line holds for a module, as finit_module takes them:
// "virtio_mmio.device=a virtio_mmio.device=b x" gives "device=a device=b" for "virtio_mmio". The
// kernel reads them only for what is built in; for modules that is the loader's work (modprobe(8)).
// '-' and '_' are the same in names. Cut short when `size` is too small.
void modules_params(const char *cmdline, const char *module, char *out, size_t size);
