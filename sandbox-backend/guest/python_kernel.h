// SPDX-License-Identifier: Apache-2.0
// The Python kernel as init starts it: as the user and in the directory of commands.
//
// Some templates have the kernel (template/rootfs.c, template/source/guest_python.c). The build of
// a template leaves two files beside it, each with NUL-terminated strings: the default user and
// directory of commands (template/setup.c), and the variables of an image. A guest without these
// files has the user "user", the user's home, and no variables.
#pragma once
#include <stdbool.h>

bool python_kernel_is_here(void);

// Make the control group of the kernel, so that envd can stop the kernel (envd/guest/quiesce.c).
void python_kernel_make_group(void);

// Become the Python kernel. Return only if it cannot start; errno has the reason. owns_kernel: as
// for supervise.
void python_kernel_run(bool owns_kernel);
