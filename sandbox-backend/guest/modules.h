// SPDX-License-Identifier: Apache-2.0
// Load the guest kernel's modules that the initramfs carries.
#pragma once
#include <stddef.h>

#define MODULES_DIR  "/modules"
#define MODULES_LIST MODULES_DIR "/load" // one file name a line, dependencies first

// Load every module of MODULES_LIST with its parameters from the guest kernel's command line, then
// remove the files. A module that fails to load is reported on the console; whatever needs it fails
// later with a message of its own.
void modules_load(const char *cmdline);

// Write the parameters that a command line holds for a module, as finit_module takes them:
// "virtio_mmio.device=a virtio_mmio.device=b x" gives "device=a device=b" for "virtio_mmio". The
// guest kernel reads them only for built-in drivers; for modules the loader must (modprobe(8)). '-'
// and '_' are the same in names. The text is cut if `size` is too small.
void modules_params(const char *cmdline, const char *module, char *out, size_t size);
