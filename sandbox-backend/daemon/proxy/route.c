// SPDX-License-Identifier: Apache-2.0
// Routes: find the sandbox and port that a request names, and the headers to pass on. Pure.
#include "sandbox-backend/daemon/proxy/route.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/sandbox_id.h"
#include "sandbox-backend/base/str.h"

#define ID_HEADER   "E2b-Sandbox-Id"
#define PORT_HEADER "E2b-Sandbox-Port"
#define ROUTER_PATH "/sandboxes/router/"
#define ID_CHARS    "abcdefghijklmnopqrstuvwxyz0123456789-"

static enum route_kind bad(struct err *e, const char *what)
{
    err_set(e, ERR_INVALID, "%s", what);
    return ROUTE_BAD;
}

static bool is_id(const char *id, size_t len)
{
    if (len == 0 || len >= ROUTE_ID_BYTES)
        return false;
    return *id != '-' && strspn(id, ID_CHARS) >= len;
}

static bool read_port(const char *text, struct route *out)
{
    int64_t port = 0;
    bool ok = str_to_int(text, 1, 65535, &port);
    out->port = (int)port;
    return ok;
}

static void take_id(struct route *out, const char *id, size_t len)
{
    memcpy(out->id, id, len);
    out->id[len] = '\0';
}

// Return whether it is a sandbox id, or one followed by "-<client id>". A host name that only looks
// similar ("10-0-0-5.default.pod.cluster.local") means the control plane.
static bool is_own_id(const char *id, size_t len)
{
    size_t own = sandbox_id_len(id);
    return is_id(id, len) && own > 0 && (len == own || len > own + 1);
}

// Host names ignore case; ids are lower case.
static void lower(char *name)
{
    for (; *name; name++)
        if (*name >= 'A' && *name <= 'Z')
            *name += 'a' - 'A';
}

// "8000-<id>.localhost:3000"
static enum route_kind by_host(const char *host, struct route *out, struct err *e)
{
    char port[6] = "";
    char id[ROUTE_ID_BYTES] = "";
    size_t digits = strspn(host, "0123456789");
    if (digits == 0 || host[digits] != '-')
        return ROUTE_CONTROL;
    const char *name = host + digits + 1;
    size_t len = strcspn(name, ".");
    if (name[len] != '.' || len >= sizeof id)
        return ROUTE_CONTROL;
    memcpy(id, name, len);
    lower(id);
    if (!is_own_id(id, len))
        return ROUTE_CONTROL;
    memcpy(port, host, digits < sizeof port ? digits : 0);
    if (!read_port(port, out))
        return bad(e, "Invalid host name: its port must be from 1 to 65535");
    take_id(out, id, len);
    out->domain = name + len + 1;
    return ROUTE_SANDBOX;
}

// Return the length without a port and the root dot.
static size_t name_len(const char *host)
{
    size_t len = strcspn(host, ":");
    return len && host[len - 1] == '.' ? len - 1 : len;
}

bool route_in_domain(const char *domain, const char *ours)
{
    static const char LOCAL[] = "localhost";
    size_t len = name_len(domain);
    if (!ours || (len == sizeof LOCAL - 1 && strncasecmp(domain, LOCAL, len) == 0))
        return true;
    return len == name_len(ours) && strncasecmp(domain, ours, len) == 0;
}

bool route_names_port(const char *host, const char *ours)
{
    size_t digits = host ? strspn(host, "0123456789") : 0;
    if (digits == 0 || host[digits] != '-')
        return false;
    const char *domain = strchr(host, '.');
    return domain && route_in_domain(domain + 1, ours ? ours : "localhost");
}

// "/sandboxes/router/abc/8000/index.html", as CubeSandbox's sidecar has it
static enum route_kind by_target(const char *target, struct route *out)
{
    char port[6] = "";
    if (!str_starts(target, ROUTER_PATH))
        return ROUTE_CONTROL;
    const char *id = target + strlen(ROUTER_PATH);
    size_t len = strcspn(id, "/");
    const char *digits = id + len + (id[len] == '/');
    size_t count = strspn(digits, "0123456789");
    if (!is_id(id, len) || count == 0 || count >= sizeof port || !strchr("/?", digits[count]))
        return ROUTE_CONTROL;
    memcpy(port, digits, count);
    if (!read_port(port, out))
        return ROUTE_CONTROL;
    take_id(out, id, len);
    out->skip = (size_t)(digits + count - target);
    return ROUTE_SANDBOX;
}

enum route_kind route_parse(const struct http_header *headers, size_t count, const char *target,
                            struct route *out, struct err *e)
{
    const char *id = http_header_get(headers, count, ID_HEADER);
    const char *port = http_header_get(headers, count, PORT_HEADER);
    *out = (struct route){0};
    if (!id && !port) {
        const char *host = http_header_get(headers, count, "Host");
        enum route_kind kind = host ? by_host(host, out, e) : ROUTE_CONTROL;
        return kind == ROUTE_CONTROL ? by_target(target, out) : kind;
    }
    if (!id)
        return bad(e, "Missing header: " ID_HEADER);
    if (!port)
        return bad(e, "Missing header: " PORT_HEADER);
    if (!is_id(id, strlen(id)))
        return bad(e, "Invalid header: " ID_HEADER);
    if (!read_port(port, out))
        return bad(e, "Invalid header: " PORT_HEADER " must be from 1 to 65535");
    take_id(out, id, strlen(id));
    return ROUTE_SANDBOX;
}

// envd may be lenient about slashes and dots, so "//init/" and "/x/../init" count as "/init".
static void normalise(const char *path, char *out, size_t room)
{
    size_t n = 0;
    out[0] = '\0';
    while (*path && n + 2 < room) {
        path += strspn(path, "/");
        size_t len = strcspn(path, "/");
        if (len == 2 && strncmp(path, "..", 2) == 0) {
            char *slash = strrchr(out, '/');
            n = slash ? (size_t)(slash - out) : 0;
        } else if (len && !(len == 1 && *path == '.')) {
            size_t fits = len < room - n - 2 ? len : room - n - 2;
            out[n] = '/';
            memcpy(out + n + 1, path, fits);
            n += fits + 1;
        }
        out[n] = '\0';
        path += len;
    }
}

static char *normalised(const char *path)
{
    size_t room = strlen(path) + 3;
    char *normal = xmalloc(room); // bounded: the path is part of a request head
    normalise(path, normal, room);
    return normal;
}

bool route_is_reserved(const char *path)
{
    static const char *const RESERVED[] = {"/init",   "/freeze",   "/unfreeze", "/fsfreeze",
                                           "/fsthaw", "/collapse", "/upgrade"};
    char *normal auto_free = normalised(path);
    for (size_t i = 0; i < ARRAY_LEN(RESERVED); i++)
        if (strcasecmp(normal, RESERVED[i]) == 0)
            return true;
    return false;
}

static bool is_interrupt(const char *normal)
{
    static const char BEFORE[] = "/contexts/";
    if (strncasecmp(normal, BEFORE, sizeof BEFORE - 1) != 0)
        return false;
    const char *id = normal + sizeof BEFORE - 1;
    return strcasecmp(id + strcspn(id, "/"), "/interrupt") == 0;
}

bool route_runs_code(const char *path)
{
    char *normal auto_free = normalised(path);
    return strcasecmp(normal, "/execute") == 0 || is_interrupt(normal);
}

enum route_use route_use(int port, const char *method, const char *path)
{
    if (port != ENVD_PORT)
        return ROUTE_USED;
    if (str_eq(path, "/filesystem.Filesystem/WatchDir"))
        return ROUTE_OPENED;
    bool asks = str_eq(method, "GET") || str_eq(method, "HEAD");
    return asks && str_eq(path, "/health") ? ROUTE_NOT_USED : ROUTE_USED;
}

// Return whether a Connection header lists `name`.
static bool is_connection_option(const struct http_header *headers, size_t count, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < count; i++) {
        if (strcasecmp(headers[i].name, "Connection") != 0)
            continue;
        for (const char *at = headers[i].value; *at;) {
            at += strspn(at, " \t,");
            size_t n = strcspn(at, " \t,");
            if (n == len && strncasecmp(at, name, n) == 0)
                return true;
            at += n;
        }
    }
    return false;
}

static bool passes(const char *name)
{
    static const char *const NOT[] = {"Content-Length", "Expect", ID_HEADER, PORT_HEADER};
    for (size_t i = 0; i < ARRAY_LEN(NOT); i++)
        if (strcasecmp(name, NOT[i]) == 0)
            return false;
    return !http_header_is_hop_by_hop(name);
}

size_t route_filter(const struct http_header *headers, size_t count, struct http_header *out)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        if (passes(headers[i].name) && !is_connection_option(headers, count, headers[i].name))
            out[n++] = headers[i];
    return n;
}
