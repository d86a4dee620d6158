// SPDX-License-Identifier: Apache-2.0
// The values of --chown and --chmod of COPY and ADD.
#pragma once
#include "sandbox-backend/base/err.h"

// Check the form of an owner: USER, USER:GROUP or :GROUP, each a name or a number; "": none.
// ERR_INVALID says what is allowed.
int copy_words_check_owner(const char *owner, struct err *e);

// Check the form of a mode, as chmod(1) takes it: octal digits, or symbols such as u=rwX,go=rX; "":
// none.
int copy_words_check_mode(const char *mode, struct err *e);
