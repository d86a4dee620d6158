// SPDX-License-Identifier: Apache-2.0
// The file systems of the guest: from the initramfs to the disk as root.
#pragma once

#define MOUNTS_DISK "/dev/vda"

void mounts_early(void); // /proc, /sys and /dev of the initramfs, and the console on 0, 1, 2

// Mounts the disk, makes it the root of everything that follows, and mounts what Linux programs
// expect in it. What stays behind in the initramfs can be reached by open descriptors only. Does
// not return when there is no disk.
void mounts_enter_disk(void);
