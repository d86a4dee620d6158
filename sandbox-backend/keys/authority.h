// SPDX-License-Identifier: Apache-2.0
// A certificate authority of a sandbox's own: made here, used by cubby-egress (egress/leaf.h).
#pragma once
#include "sandbox-backend/base/err.h"

struct authority {
    char *certificate; // owned; PEM
    char *key;         // owned; PEM; wiped at the end
};

// An EC key on P-256, and a certificate of itself that may only sign certificates of servers.
int authority_make(struct authority *a, const char *common_name, struct err *e);
void authority_fini(struct authority *a);
