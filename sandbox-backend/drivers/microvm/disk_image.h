// SPDX-License-Identifier: Apache-2.0
// Whether a sandbox's disk may be given to another QEMU.
//
// A guest only writes blocks of it; a QEMU that its guest has broken into writes what it likes, the
// format's head too. That can name other files (a backing file, an external file of data), which
// the next QEMU would open when it goes on from an image. Ours name none: the base is given on the
// command line.
#pragma once
#include "sandbox-backend/base/err.h"

// ERR_INVALID says what is in it that must not be.
int disk_image_check(const char *path, struct err *e);
