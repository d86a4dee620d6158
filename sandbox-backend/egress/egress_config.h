// SPDX-License-Identifier: Apache-2.0
// What cubby-egress is told at its start (egress.h), and never again.
#pragma once
#include "sandbox-backend/egress/leaf.h"
#include "sandbox-backend/egress/secret.h"
#include "sandbox-backend/egress/tls_end.h"

struct egress_config {
    struct leaves *leaves; // owned, as all here
    struct tls_ends *tls;
    struct secrets secrets;
};

// Reads the descriptor to its end and closes it. To be ended by egress_config_fini in any case.
int egress_config_read(struct egress_config *c, int fd, struct err *e);
void egress_config_fini(struct egress_config *c);
