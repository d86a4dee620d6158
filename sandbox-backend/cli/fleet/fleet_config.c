// SPDX-License-Identifier: Apache-2.0
// A configuration of HAProxy 2.6 or newer for a fleet. The frontend finds the node's name in the
// request and uses the backend of this name; a create goes to any node with room, and all else to
// any node.
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#include "sandbox-backend/cli/fleet/fleet.h"

#define SYSTEM_CA "/etc/ssl/certs/ca-certificates.crt"

// The answer of the proxy itself if a backend has no node for a request.
#define ERROR_503(message, code)                                                                 \
    "    http-error status 503 content-type application/json string '{\"code\":503,\"message\":" \
    "\"" message "\",\"error_code\":\"" code "\"}' hdr Retry-After 5\n"

static const char HEAD[] =
    "# Made by `cubby fleet config`. Do not edit it: change the list of nodes and make it again.\n"
    "global\n"
    "    # The template of a create is read in its body, which must be in the buffer to be "
    "repeated.\n"
    "    tune.bufsize 131072\n"
    "\n"
    "# Nodes whose URLs have names may be down when the proxy starts.\n"
    "resolvers host\n"
    "    parse-resolv-conf\n"
    "\n"
    "defaults\n"
    "    mode http\n"
    "    option forwardfor\n"
    "    # Small messages of a stream are sent at once. A stream may be silent for a day, which is "
    "as\n"
    "    # long as a sandbox lives by default. Health checks find dead nodes.\n"
    "    option http-no-delay\n"
    "    timeout connect 5s\n"
    "    timeout http-request 60s\n"
    "    timeout http-keep-alive 10m\n"
    "    timeout queue 10s\n"
    "    timeout check 3s\n"
    "    timeout client 24h\n"
    "    timeout server 24h\n"
    "    timeout tunnel 24h\n"
    "    retries 2\n"
    "    retry-on conn-failure\n"
    "    option redispatch 1\n"
    "    default-server resolvers host init-addr last,libc,none check inter 1s fall 2 rise 1 "
    "on-marked-down shutdown-sessions\n" ERROR_503(
        "the node of this request does not answer; try again in a moment", "node_unavailable");

// A name in a header wins over a host name, and a host name over a path, as in cubbyd.
static const char ROUTES[] =
    "    http-request set-header X-Forwarded-Proto https if { ssl_fc }\n"
    "    # 1. The id that the request names.\n"
    "    http-request set-var(txn.id) req.hdr(e2b-sandbox-id),lower\n"
    "    http-request set-var(txn.id) 'hdr(host),lower,"
    "regsub(\"^[0-9]+-([a-z0-9]+).*$\",\"\\1\")' if !{ var(txn.id) -m found } "
    "{ hdr(host) -m reg -i ^[0-9]{1,5}-[a-z0-9]{20,31}(-[^.]*)?[.] }\n"
    "    http-request set-var(txn.id) 'path,"
    "regsub(\"^/sandboxes/router/([a-z0-9]+).*$\",\"\\1\")' if !{ var(txn.id) -m found } "
    "{ path -m reg ^/sandboxes/router/[a-z0-9]{20,31}[-/] }\n"
    "    http-request set-var(txn.id) 'path,"
    "regsub(\"^(/v[0-9])?/sandboxes/([a-z0-9]+).*$\",\"\\2\")' if !{ var(txn.id) -m found } "
    "{ path -m reg ^(/v[0-9])?/sandboxes/[a-z0-9]{20,31}(-|/|$) }\n"
    "    http-request set-var(txn.id) 'path,"
    "regsub(\"^(/v[0-9])?/templates/snap-([a-z0-9]+).*$\",\"\\2\")' if "
    "!{ var(txn.id) -m found } { path -m reg ^(/v[0-9])?/templates/snap-[a-z0-9]{20,31}(/|$) }\n"
    "    http-request set-var(txn.id) 'path,"
    "regsub(\"^/volume(s|content)/([a-z0-9]+).*$\",\"\\2\")' if !{ var(txn.id) -m found } "
    "{ path -m reg ^/volume(s|content)/[a-z0-9]{20,31}(/|$) }\n"
    "    # A request with a port is for a program in the sandbox. Its path is none of the API's.\n"
    "    acl guest var(txn.port) -m found\n"
    "    acl own_header req.hdr(e2b-sandbox-id) -m found\n"
    "    acl own_host hdr(host) -m reg -i ^[0-9]{1,5}-[a-z0-9]{20,31}(-[^.]*)?[.]\n"
    "    acl own_path path -m reg ^/sandboxes/router/[^/]+/[0-9]{1,5}(/|$)\n"
    "    http-request set-var(txn.path) path\n"
    "    http-request set-var(txn.port) req.hdr(e2b-sandbox-port)\n"
    "    http-request set-var(txn.port) 'hdr(host),regsub(\"-.*$\",\"\")' if !guest !own_header "
    "own_host\n"
    "    http-request set-var(txn.path) 'path,"
    "regsub(\"^/sandboxes/router/[^/]+/[0-9]+\",\"\")' if !guest !own_header own_path\n"
    "    http-request set-var(txn.port) path,field(5,/) if !guest !own_header own_path\n"
    "    # 2. A create from a snapshot belongs to the snapshot's node.\n"
    "    acl create path -m reg ^(/v[0-9])?/sandboxes$\n"
    "    http-request wait-for-body time 30s at-least 100000 if METH_POST create "
    "!guest\n"
    "    http-request set-var(txn.template) \"req.body,json_query('\\$.templateID')\" if METH_POST "
    "create !guest\n"
    "    http-request set-var(txn.id) 'var(txn.template),regsub(\"^snap-\",\"\")' if "
    "{ var(txn.template) -m reg ^snap-[a-z0-9]{20,31}$ }\n"
    "    # 3. The node is all of the id but its last 20 characters, and a client's id after "
    "\"-\".\n"
    "    http-request set-var(txn.node) 'var(txn.id),"
    "regsub(\"^([a-z0-9]*)[a-z0-9]{20}(-.*)?$\",\"\\1\")' if "
    "{ var(txn.id) -m reg ^[a-z0-9]{20,31}(-.*)?$ }\n"
    "    # 4. Builds and uploads have the node's name before a UUID or a token.\n"
    "    http-request set-var(txn.node) 'path,"
    "regsub(\"^.*/(builds|uploads)/([a-z0-9]+)-.*$\",\"\\2\")' if !guest { path -m reg "
    "/(builds/[a-z0-9]{1,11}-[0-9a-f]{8}-[0-9a-f]{4}-|uploads/[a-z0-9]{1,11}-[0-9a-f]{32}) }\n"
    "    # 5. A build is requested and its files are uploaded at the node that the name stands "
    "for.\n"
    "    # A volume is made there, too, so that no two nodes make one of the same name.\n"
    "    acl named path /v3/templates /volumes\n"
    "    http-request wait-for-body time 30s at-least 100000 if METH_POST named "
    "!guest\n"
    "    http-request set-var(txn.name) \"req.body,json_query('\\$.name'),lower,field(1,:)\" if "
    "METH_POST named !guest\n"
    "    http-request set-var(txn.name) \"req.body,json_query('\\$.alias'),lower,field(1,:)\" if "
    "METH_POST named !guest !{ var(txn.name) -m len gt 0 }\n"
    "    http-request set-var(txn.name) \"req.body,json_query('\\$.volumeMounts[0].name'),lower\" "
    "if METH_POST create !guest\n"
    "    http-request set-var(txn.name) path,field(3,/),lower if !guest "
    "{ path -m reg ^/templates/[^/]+/files/ }\n"
    "    http-request set-var(txn.bucket) var(txn.name),xxh32,mod(256) if "
    "{ var(txn.name) -m found }\n"
    "    # 6. The bodies of the API and of envd's calls are small and are sent at once. They are "
    "waited\n"
    "    # for where the request may be sent again, but not a stream of input and large files.\n"
    "    acl reads method GET HEAD OPTIONS\n"
    "    acl api path -m reg "
    "^(/v[0-9])?/(sandboxes|templates|volumes|secrets|events|api-keys)(/|$)\n"
    "    acl envd var(txn.port) -m str 49983\n"
    "    acl call var(txn.path) -m beg /process.Process/ /filesystem.Filesystem/\n"
    "    acl stream var(txn.path) -m str /process.Process/StreamInput\n"
    "    http-request set-var(txn.small) bool(true) if !reads !guest api\n"
    "    http-request set-var(txn.small) bool(true) if !reads envd call !stream\n"
    "    http-request set-var(txn.small) bool(true) if !reads envd !stream "
    "{ req.hdr_val(content-length) le 100000 }\n"
    "    use_backend node_%[var(txn.node)] if { var(txn.node) -m found }\n"
    "    use_backend makes if METH_POST named !guest { var(txn.name) -m found }\n"
    "    use_backend named if { var(txn.name) -m found }\n"
    "    use_backend creates if METH_POST create !guest\n"
    "    default_backend any\n";

// Return the host of the node's URL. New string.
static char *host_of(const struct node *n)
{
    return xstrndup(n->address, (size_t)(strrchr(n->address, ':') - n->address));
}

static bool is_address(const char *host)
{
    struct in_addr four;
    return *host == '[' || inet_pton(AF_INET, host, &four) == 1;
}

// A certificate must be for the host of the URL. An address is no server name (RFC 6066).
static void add_server(const struct fleet_config *c, const struct node *n, const char *more,
                       struct buf *out)
{
    char *host auto_free = host_of(n);
    buf_printf(out, "    server %s %s", n->name, n->address);
    if (n->tls)
        buf_printf(out, " ssl verify required ca-file '%s' verifyhost %s",
                   c->ca ? c->ca : SYSTEM_CA, host);
    if (n->tls && !is_address(host))
        buf_printf(out, " sni str(%s)", host);
    buf_printf(out, "%s\n", more);
}

// Return whether the agent's host is the URL's. HAProxy resolves only that one while it runs.
static bool agent_is_there(const struct node *n)
{
    size_t len = (size_t)(strrchr(n->agent, ':') - n->agent) + 1;
    return strncasecmp(n->agent, n->address, len) == 0;
}

static void add_agent(const struct node *n, char *out, size_t room)
{
    const char *colon = n->agent ? strrchr(n->agent, ':') : NULL;
    int len = colon ? (int)(colon - n->agent) : 0;
    if (colon && agent_is_there(n))
        snprintf(out, room, " weight 100 agent-check agent-port %s agent-inter 1s", colon + 1);
    else if (colon)
        snprintf(out, room, " weight 100 agent-check agent-addr %.*s agent-port %s agent-inter 1s",
                 len, n->agent, colon + 1);
    else
        snprintf(out, room, " weight 100");
}

static void add_servers(const struct fleet_config *c, bool agents, struct buf *out)
{
    for (size_t i = 0; i < c->nodes.count; i++) {
        char more[400] = "";
        if (agents)
            add_agent(&c->nodes.all[i], more, sizeof more);
        if (!*c->nodes.all[i].moved)
            add_server(c, &c->nodes.all[i], more, out);
    }
}

// A request is sent again only if all of it is in the buffer. The SDKs' bodies have no length.
#define WAIT_FOR_BODY \
    "    http-request wait-for-body time 30s at-least 100000 if { var(txn.small) -m found }\n"

// A node that is drained is asked first, and the other one if it answers 425 (the sandbox was
// moved) or does not run. A node that does not have the sandbox answers 421.
static const char THEN[] =
    "    balance first\n"
    "    retries 2\n"
    "    retry-on conn-failure 425\n" WAIT_FOR_BODY
    "    http-response return status 503 content-type application/json string '{\"code\":503,"
    "\"message\":\"the sandbox is being moved, or the node that has it does not answer; try again "
    "in a moment\",\"error_code\":\"node_unavailable\"}' hdr Retry-After 5 if { status 421 }\n";

static void add_node(const struct fleet_config *c, const struct node *n, const char *name,
                     struct buf *out)
{
    const struct node *has = *n->moved ? nodes_find(&c->nodes, n->moved) : n;
    const struct node *then = nodes_find(&c->nodes, has->then);
    buf_printf(out,
               "\nbackend node_%s\n"
               "    option httpchk GET /health\n",
               name);
    if (then)
        buf_adds(out, THEN);
    add_server(c, has, "", out);
    if (then)
        add_server(c, then, "", out);
}

static void warn_of_file(const char *option, const char *path)
{
    if (path && !file_exists(path))
        fprintf(stderr, "cubby: warning: the file of %s is not on this host: %s\n", option, path);
}

static void warn_of_agent(const struct node *n)
{
    char *host auto_free = xstrndup(n->agent, (size_t)(strrchr(n->agent, ':') - n->agent));
    if (!is_address(host) && !agent_is_there(n))
        fprintf(stderr,
                "cubby: warning: node \"%s\": HAProxy does not start while the name %s of agent= "
                "cannot be resolved. Use the host of the URL there, or an address\n",
                n->name, host);
}

static void warn_of_node(const struct node *n)
{
    char *host auto_free = host_of(n);
    if (!n->tls && !node_is_loopback(n))
        fprintf(stderr,
                "cubby: warning: the URL of node \"%s\" is not https, so keys travel "
                "unencrypted to it\n",
                n->name);
    if (n->tls && is_address(host))
        fprintf(stderr,
                "cubby: warning: node \"%s\": HAProxy looks for %s in the common name (CN) of "
                "the node's certificate, and not in its subjectAltName. Put it there, or use a "
                "host name in the URL\n",
                n->name, host);
    if (n->agent && !*n->moved)
        warn_of_agent(n);
}

void fleet_config_warn(const struct fleet_config *c)
{
    warn_of_file("--cert", c->cert);
    warn_of_file("--ca", c->ca);
    for (size_t i = 0; i < c->nodes.count; i++)
        warn_of_node(&c->nodes.all[i]);
}

static const char NO_ROOM[] = ERROR_503(
    "no node has room for a new sandbox: all are full, are drained or do not answer; try again in "
    "a moment",
    "host_full");
static const char NO_MAKER[] = ERROR_503(
    "no node takes a new volume or build: all are drained or do not answer; try again in a moment",
    "node_unavailable");

// Begin a backend whose requests are repeated at each node after these answers.
static void add_backend(const struct fleet_config *c, const char *name, const char *check,
                        const char *answers, struct buf *out)
{
    buf_printf(out,
               "backend %s\n"
               "    balance roundrobin\n"
               "    option httpchk GET %s\n"
               "    retries %d\n"
               "    retry-on conn-failure %s\n",
               name, check, 2 * (int)c->nodes.count, answers);
}

void fleet_config_write(const struct fleet_config *c, struct buf *out)
{
    buf_adds(out, HEAD);
    buf_printf(out, "\nfrontend fleet\n    bind %s", c->listen);
    if (c->cert)
        buf_printf(out, " ssl crt '%s' alpn h2,http/1.1", c->cert);
    buf_printf(out, "\n%s", ROUTES);
    buf_adds(out, "\n# 503: the node is full or is drained. 404: it does not have the template. "
                  "Nothing was\n# started then, so another node is tried.\n");
    add_backend(c, "creates", "/health?for=create", "503 404", out);
    buf_adds(out, NO_ROOM);
    add_servers(c, true, out);
    buf_adds(out, "\n# 503: the node is drained, and nothing was made.\n");
    add_backend(c, "makes", "/health?for=make", "503", out);
    buf_adds(out, NO_MAKER);
    fleet_buckets_write(&c->nodes, out);
    add_servers(c, false, out);
    buf_adds(out,
             "\n# 404: a volume or a build that was made while the list was another, or a node "
             "drained.\n");
    add_backend(c, "named", "/health", "404", out);
    fleet_buckets_write(&c->nodes, out);
    add_servers(c, false, out);
    buf_adds(out, "\n# 404: a template that another node has.\n");
    add_backend(c, "any", "/health", "404", out);
    buf_adds(out, WAIT_FOR_BODY);
    add_servers(c, false, out);
    for (size_t i = 0; i < c->nodes.count; i++)
        add_node(c, &c->nodes.all[i], c->nodes.all[i].name, out);
    buf_adds(out, "\n# Ids from before the nodes had names.");
    add_node(c, &c->nodes.all[0], "", out);
}
