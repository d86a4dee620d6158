// SPDX-License-Identifier: Apache-2.0
// network.egressProxy: the SOCKS5 proxy through which a sandbox's TCP connections to the outside
// leave, as E2B's API has it:
//
//   {"address": "proxy.example.com:1080", "username": "u", "password": "p",
//    "tls": {"enabled": true, "serverName": "proxy.example.com", "caCert": PEM}}
//
// A sandbox's record keeps it so (secrets.h), with the password. No answer and no guest gets that.
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "sandbox-backend/base/err.h"

// Check `proxy` and set *out to a new reference, or to NULL when it is absent. `special`: the
// address may be private. ERR_INVALID says what is wrong, without the password.
int egress_proxy_parse(const json_t *proxy, bool special, json_t **out, struct err *e);
// Return it as cubby-egress reads it (egress/egress.h). New reference, or NULL.
json_t *egress_proxy_for_egress(const json_t *proxy, bool special);
// Return it without the password and the certificates. New reference, or NULL.
json_t *egress_proxy_view(const json_t *proxy);
