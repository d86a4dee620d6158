// SPDX-License-Identifier: Apache-2.0
// The check of a sandbox's disk before another QEMU gets it.
//
// A guest writes only blocks of the disk, but a QEMU that its guest has broken into may also write
// the format's header. The header can name other files (a backing file, an external data file),
// which the next QEMU would open when it goes on from an image. Cubby's disks name none: the base
// is given on the command line.
#pragma once
#include "sandbox-backend/base/err.h"

// Check the header of the disk. ERR_INVALID names what must not be in it.
int disk_image_check(const char *path, struct err *e);
