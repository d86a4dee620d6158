// SPDX-License-Identifier: Apache-2.0
// What the lists of system calls share. These return 0 or a negative errno, as libseccomp does.
#pragma once
#include <seccomp.h>
#include <stddef.h>

int filter__refuse(scmp_filter_ctx ctx, const int *calls, size_t count, int error);
int filter__unknown(scmp_filter_ctx ctx); // those that are to look as if this kernel had none
int filter__network(scmp_filter_ctx ctx);
