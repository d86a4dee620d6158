// SPDX-License-Identifier: Apache-2.0
// The file systems of the guest: init begins in the initramfs and changes to the disk as its root.
#pragma once

#define MOUNTS_DISK "/dev/vda"

// Mount /proc, /sys and /dev of the initramfs, and open the console as descriptors 0, 1 and 2.
void mounts_early(void);

// Mount the disk, make it the root, and mount in it what Linux programs expect. Files of the
// initramfs can then be reached by open descriptors only. Without a disk this does not return.
void mounts_enter_disk(void);
