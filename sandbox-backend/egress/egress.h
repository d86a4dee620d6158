// SPDX-License-Identifier: Apache-2.0
// cubby-egress: puts a sandbox's secrets into its requests, outside of the sandbox.
//
// Theory of operation
//
// Goal. A guest uses secrets, but never has their values. It has a placeholder for each secret. One
// cubby-egress for each sandbox replaces the placeholder by the value, only in a request that goes
// over verified TLS to a host that the secret is for. No other program learns the value: it comes
// over a descriptor, it is in no argument, environment, log or file, and cubby-egress masks it in
// answers.
//
// Connections come from cubby-netd, which has the guest's raw frames and no secret. netd hands over
// every outward TCP connection of the guest whose first bytes are a TLS ClientHello or an HTTP/1
// request. (A sandbox without secrets has no cubby-egress, and netd hands over nothing.) Each
// connection is one message on a SOCK_SEQPACKET socket (connections_fd):
//
//   {"name": "api.example.com", "address": "192.0.2.7", "port": 443, "tls": true}
//
//   name     SNI's host_name, or the Host of the first request without its port; "" when there is
//            none: the connection is then for the address itself
//   address  IPv4 or IPv6 in digits: what the guest connected to. The policy has allowed this name
//            at this address; cubby-egress looks up no name
//   tls      whether the first bytes are a ClientHello
//
// With "dial": true (and no name or tls) the descriptor is netd's end of a connection that does not
// exist yet: dial.c makes it through the sandbox's upstream proxy, says so by one zero byte, and
// relays bytes, whatever they are. netd lets the guest's handshake wait for that byte.
//
// A message has at most EGRESS_MESSAGE_MAX bytes and one descriptor (SCM_RIGHTS): the guest's side
// of the connection, a stream socket from which no byte of the guest has been read (MSG_PEEK is
// allowed). The descriptor then belongs to this process, which also connects to the destination
// host. netd gets no answer; the guest gets a refusal on its connection. A malformed message closes
// the descriptor and is reported. When the socket's queue is full, the sender resets the guest's
// connection; it never waits. When the sender closes its end, this process ends, with all its
// connections.
//
// The configuration (config_fd) is read to its end once; then the descriptor is closed and the text
// is wiped:
//
//   {"ca": {"certificate": PEM, "key": PEM},
//    "trust": "/path/of/bundle.pem",            (optional; else the system's store)
//    "secrets": [{"name": "OPENAI_API_KEY", "placeholder": "cubby-...", "value": "sk-...",
//                 "hosts": ["api.openai.com", "*.openai.com"]}],
//    "rules": [{"host": "api.openai.com",       (optional)
//               "headers": {"Authorization": "Bearer cubby-..."}}],
//    "proxy": {"host": "proxy.example", "port": 1080, "username": ..., "password": ...,
//              "special": false, "tls": {"name": ..., "ca": PEM}}}    (optional, as are its user
//                                              name, password and tls, and the members of tls)
//
// With a proxy, each connection to a host leaves through it (dial.h). Its host is looked up for
// each connection, and must be public unless "special" is set.
//
// A rule sets headers in requests that go over TLS to its host, whether the guest sends them or
// not. Among several rules that fit a host, one applies: the exact name, else the longest suffix.
//
// TLS. Towards the guest: a leaf certificate for the connection's name, signed by the sandbox's own
// authority. It is made when it is first needed. Those of the LEAVES_MAX names that were used last
// are kept. Towards the host: verified for that name against the trust store. Both sides: 1.2 or
// later, HTTP/1.1 only by ALPN. A host that cannot be verified gets nothing, and the guest gets
// 502.
//
// A request's life (tunnel_http.c):
//
//   HEAD    read to its end, at most 64 KiB, and judged (judge.c) before anything is sent: is its
//           Host the connection's name, is its target a path, is each placeholder in it allowed
//           here? If it is refused, the guest gets an answer, the connection ends, and a line is
//           logged
//   SEND    the host is connected if it is not yet; the head is written again from its parts, with
//           values for placeholders; the body follows as it comes, framed as it was
//   ANSWER  passed on as it comes, with values in it masked, until its end; then the next HEAD.
//           After 101 both directions are only bytes
//
// Refusals are counted and kept in a file that the daemon reads (stats_fd, base/net_stats.h). The
// guest and the log get a sentence about each.
//
// Limits: CONNECTIONS_MAX at once, 64 KiB for a head, 256 KiB waiting in each direction, a deadline
// for every wait (tunnel.c). There is one thread, and nothing blocks.
//
// Failure: the end of this process ends every connection. netd then resets each connection that it
// would hand over, and the sandbox goes on without TLS or HTTP to the outside. No connection
// bypasses it.
#pragma once
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/egress/proxy.h"
#include "sandbox-backend/egress/rules.h"
#include "sandbox-backend/egress/secret.h"
#include "sandbox-backend/egress/tls_context.h"

#define EGRESS_MESSAGE_MAX     4096
#define EGRESS_CONFIG_MAX      (8 << 20) // the longest values, each byte escaped, and all rules
#define EGRESS_CONNECTIONS_MAX 256
#define EGRESS_LEAVES_MAX      128

struct egress;

struct egress_options {
    int connections_fd;
    int config_fd;
    int stats_fd; // a file that net_stats_create made; borrowed; -1: none
};

// Read the configuration and close its descriptor. Return NULL with `e` when it is invalid; the
// error holds no secret.
struct egress *egress_new(const struct egress_options *o, struct err *e);
int egress_run(struct egress *g, struct err *e); // until the sender closes its end
void egress_free(struct egress *g);

// ---- the configuration, read once at the start

struct egress_config {
    struct leaves *leaves; // owned, as everything here
    struct tls_contexts *tls;
    struct secrets secrets;
    struct rules rules;
    struct proxy proxy;
    struct tls_contexts *proxy_tls; // NULL: the proxy is spoken to without TLS
};

// Read the descriptor to its end and close it. Call egress_config_fini in any case.
int egress_config_read(struct egress_config *c, int fd, struct err *e);
void egress_config_fini(struct egress_config *c);
