// SPDX-License-Identifier: Apache-2.0
// The Python kernel in the guest of an image.
#pragma once
#include <jansson.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/drivers/host/tool.h"
#include "sandbox-backend/template/pump.h"

#define GUEST_WHEELS "/var/tmp/cubby-wheels" // removed, unless the installation fails

// Run a program of the guest's python3, as root, with PATH of the image. As call_run.
int guest_python_run(struct pump *p, const char *vmnet, const char *text, struct buf *out,
                     struct err *e);

// Install the Python kernel, whose sources the guest has at IMAGE_PYTHON, and let init start it, if
// the guest's python3 can run it. IPython and matplotlib, if the image lacks them, come from the
// host's pip, as wheels, and are unpacked in the guest; nothing of them runs on the host.
// variables: the image's, which the kernel gets; may be NULL. tool->cwd: the build directory.
// Return 0 if the kernel starts, or -1 with the reason why it does not.
int guest_python_install(struct pump *p, const char *vmnet, const json_t *variables,
                         const struct tool *tool, struct err *e);
