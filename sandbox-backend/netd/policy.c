// SPDX-License-Identifier: Apache-2.0
// Which IPv4 addresses a guest may open.
#include "sandbox-backend/netd/policy.h"

#include <stdlib.h>

#include "sandbox-backend/base/mem.h"

#define IP(a, b, c, d) \
    ((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (uint32_t)(d))

// The IANA special-purpose registry (RFC 6890 and its successors), and one address that only looks
// public: Azure's 168.63.129.16 is the platform's metadata and key service for the machine.
static const struct {
    struct cidr range;
    const char *why;
} special[] = {
    {{IP(0, 0, 0, 0), 8}, "this network"},
    {{IP(10, 0, 0, 0), 8}, "private"},
    {{IP(100, 64, 0, 0), 10}, "shared (carrier) space"},
    {{IP(127, 0, 0, 0), 8}, "loopback"},
    {{IP(168, 63, 129, 16), 32}, "cloud metadata"},
    {{IP(169, 254, 0, 0), 16}, "link-local or metadata"},
    {{IP(172, 16, 0, 0), 12}, "private"},
    {{IP(192, 0, 0, 0), 24}, "protocol assignments"},
    {{IP(192, 0, 2, 0), 24}, "documentation"},
    {{IP(192, 88, 99, 0), 24}, "6to4 relay"},
    {{IP(192, 168, 0, 0), 16}, "private"},
    {{IP(198, 18, 0, 0), 15}, "benchmarking"},
    {{IP(198, 51, 100, 0), 24}, "documentation"},
    {{IP(203, 0, 113, 0), 24}, "documentation"},
    {{IP(224, 0, 0, 0), 4}, "multicast"},
    {{IP(240, 0, 0, 0), 4}, "reserved or broadcast"},
};

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
    for (size_t i = 0; i < ARRAY_LEN(special); i++) {
        if (cidr_contains(&special[i].range, address))
            return special[i].why;
    }
    if (!p->host_known)
        return "the host's addresses are not known";
    for (size_t i = 0; i < p->host_count; i++) {
        if (cidr_contains(&p->host[i], address))
            return "this host";
    }
    return NULL;
}
