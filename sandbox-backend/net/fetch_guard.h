// SPDX-License-Identifier: Apache-2.0
// The addresses to which a request for somebody else may connect, such as a model's download or a
// tenant's webhook: public ones, and those that the user has allowed.
#pragma once
#include <stdbool.h>
#include <sys/socket.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/opts.h"

struct net {
    int family;              // AF_INET or AF_INET6
    unsigned char bytes[16]; // network order
    int bits;
};

struct fetch_guard {
    struct net allowed[OPT_LIST_MAX];
    int count;
};

// Read addresses such as "10.1.2.3" and "fd00::/8". ERR_INVALID names the option, without "--", and
// the invalid one.
int fetch_guard_init(struct fetch_guard *g, const struct opt_list *allow, const char *option,
                     struct err *e);
// Return whether it is an address of this host, which may be a public one.
bool fetch_guard_is_own(const struct sockaddr *address);
bool fetch_guard_allows(const struct fetch_guard *g, const struct sockaddr *address);
