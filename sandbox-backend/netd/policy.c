// SPDX-License-Identifier: Apache-2.0
// Which IPv4 addresses a guest may open.
#include "sandbox-backend/netd/policy.h"

#include <stdlib.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/special_address.h"

bool cidr_contains(const struct cidr *c, uint32_t address)
{
    uint32_t mask = c->bits == 0 ? 0 : ~(uint32_t)0 << (32 - c->bits);
    return (address & mask) == (c->address & mask);
}

void policy_init(struct policy *p, enum policy_mode mode)
{
    *p = (struct policy){.mode = mode};
}

void policy_fini(struct policy *p)
{
    free(steal(&p->host));
    p->host_count = 0;
}

void policy_set_host(struct policy *p, struct cidr *list, size_t count)
{
    free(p->host);
    p->host = list;
    p->host_count = count;
    p->host_known = true;
}

const char *policy_denies(const struct policy *p, uint32_t address)
{
    if (p->mode == POLICY_NONE)
        return "the network is off";
    const char *special = special_address(address);
    if (special)
        return special;
    if (!p->host_known)
        return "the host's addresses are not known";
    for (size_t i = 0; i < p->host_count; i++) {
        if (cidr_contains(&p->host[i], address))
            return "this host";
    }
    return NULL;
}
