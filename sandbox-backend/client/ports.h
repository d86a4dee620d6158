// SPDX-License-Identifier: Apache-2.0
// Ports of a sandbox as URLs. cubbyd opens a port of its host for each; elsewhere every port has a
// name already, as the SDKs' getHost says it, and there is nothing to list and to close.
#pragma once
#include "sandbox-backend/client/client.h"

#define EXPOSE_WAIT_MAX_S 300

struct expose_opts {
    int port;
    int host_port;  // 0: any. cubbyd's alone, as the next two
    bool token;     // it has an access token
    bool tcp;       // bytes as they are, instead of http
    int64_t wait_s; // for something to listen on the port, EXPOSE_WAIT_MAX_S at most; 0: not at all
};

// {"port", "hostPort", "protocol", "url", "browserUrl", "token"}: `url` is for programs, and
// `browserUrl` opens in a browser, with the access token in it; "browserUrl" is null of tcp,
// "token" null or absent when there is none, "hostPort" absent where no port of a host belongs to
// it. ERR_TIMEOUT: nothing listened in that time, and nothing is exposed. ERR_INVALID: it cannot be
// exposed so. ERR_LIMIT: too many are. ERR_CONFLICT: it is exposed otherwise, or the sandbox is
// paused. ERR_UNIMPLEMENTED: what this server cannot do.
struct client_op *client_expose(struct client *c, const char *id, const struct expose_opts *opts,
                                client_json_cb cb, void *ctx);
// Array of those that are exposed.
struct client_op *client_ports(struct client *c, const char *id, client_json_cb cb, void *ctx);
// Port 0: all of them. ERR_NOT_FOUND: it is not exposed, or there is no such sandbox.
struct client_op *client_unexpose(struct client *c, const char *id, int port, client_done_cb cb,
                                  void *ctx);
