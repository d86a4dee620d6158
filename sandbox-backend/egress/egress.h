// SPDX-License-Identifier: Apache-2.0
// cubby-egress: puts a sandbox's secrets into its requests, outside of the sandbox.
//
// Theory of operation
//
// Goal. A guest works with secrets that it never has. In it a secret is a placeholder; here, one
// process a sandbox, the placeholder becomes the value, and only in a request that goes over
// verified TLS to a host that the secret is for. Nothing else learns the value: it comes over a
// descriptor, is in no argument, environment, log or file, and is looked for in what comes back.
//
// Connections come from cubby-netd, which has the guest's raw frames and no secret. It passes on
// every outward TCP connection of the guest whose first bytes are a TLS ClientHello or a request of
// HTTP/1 (of a sandbox without secrets it passes on none, and there is no such process). One
// message each on a SOCK_SEQPACKET socket (connections_fd):
//
//   {"name": "api.example.com", "address": "192.0.2.7", "port": 443, "tls": true}
//
//   name     SNI's host_name, or the Host of the first request without its port; "" when there is
//            none: the connection is then for the address itself
//   address  IPv4 or IPv6 in digits: what the guest connected to. The policy has allowed this name
//            at this address; no name is looked up here
//   tls      whether the first bytes are a ClientHello
//
// of at most EGRESS_MESSAGE_MAX bytes, with one descriptor (SCM_RIGHTS): the guest's side of the
// connection, a stream socket from which none of the guest's bytes has been read (MSG_PEEK is
// fine). It belongs to this process from then on, which also connects upstream. There is no answer:
// what is refused the guest is told on its connection. A message that is not like this closes the
// descriptor and is reported. When the queue of the socket is full the sender resets the guest's
// connection; it never waits. When the sender has closed its end, this process ends, and all its
// connections with it.
//
// The configuration (config_fd) is read to its end once, then closed, and wiped where it was parsed
// from:
//
//   {"ca": {"certificate": PEM, "key": PEM},
//    "trust": "/path/of/bundle.pem",            (optional; else the system's store)
//    "secrets": [{"name": "OPENAI_API_KEY", "placeholder": "cubby-...", "value": "sk-...",
//                 "hosts": ["api.openai.com", "*.openai.com"]}]}
//
// TLS. Towards the guest with a leaf for the name of the connection, signed by the sandbox's own
// authority, made when it is first needed and kept for the LEAVES_MAX names used last. Towards the
// host verified, for that name, against the trust store. Both 1.2 and later, HTTP/1.1 only by ALPN.
// A host that cannot be verified is answered for with 502; nothing was sent to it.
//
// A request's life (exchange.c):
//
//   HEAD    read to its end, at most 64 KiB, and judged (judge.c) before anything is sent: is its
//           Host the connection's name, is its target a path, is each placeholder in it allowed
//           here. Refused: an answer of ours, the connection ends, a line is reported
//   SEND    upstream is connected if it is not yet; the head goes out anew from its parts, with
//           values for placeholders; the body as it comes, framed as it was
//   ANSWER  as it comes, values in it masked, until its end; then the next HEAD. After 101 both
//           directions are only bytes
//
// What is refused is counted and kept where the daemon reads it (stats_fd, base/net_stats.h); the
// sentence about it is answered and logged.
//
// Limits: CONNECTIONS_MAX at once, 64 KiB a head, 256 KiB waiting each way, a deadline for every
// wait (tunnel.c). One thread; nothing blocks.
//
// Failure: its end takes every connection with it; netd then resets what it would pass on, and the
// sandbox goes on without a way out over TLS or HTTP. It is never gone round.
#pragma once
#include "sandbox-backend/base/err.h"

#define EGRESS_MESSAGE_MAX     4096
#define EGRESS_CONFIG_MAX      (4 << 20)
#define EGRESS_CONNECTIONS_MAX 256
#define EGRESS_LEAVES_MAX      128

struct egress;

struct egress_options {
    int connections_fd;
    int config_fd;
    int stats_fd; // file of net_stats_create's; borrowed; -1: none
};

// Reads the configuration, and closes its descriptor. NULL with `e` set when it is not sound; the
// sentence holds no secret.
struct egress *egress_new(const struct egress_options *o, struct err *e);
int egress_run(struct egress *g, struct err *e); // until the sender is gone
void egress_free(struct egress *g);
