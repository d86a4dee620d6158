// SPDX-License-Identifier: Apache-2.0
// Requests for a port of a sandbox: which requests these are, which clients may send them, and
// when.
#include "sandbox-backend/daemon/proxy/proxy.h"

#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/http/reply.h"
#include "sandbox-backend/daemon/proxy/proxy_error.h"
#include "sandbox-backend/daemon/proxy/proxy_stream.h"
#include "sandbox-backend/daemon/proxy/route.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/keys/sha256.h"

#define SIGNATURE_PREFIX      "v1_"
#define SIGNATURE_CHARS       43   // 32 bytes in base64 without padding
#define SIGNED_TEXT_MAX_BYTES 8192 // more than a path and a user name can be

// ---- signed URLs of files
//
// With one URL for all sandboxes, the SDKs' downloadUrl and uploadUrl are
// "/files?path=...&signature=v1_...", for curl or a browser, which send no routing headers. A
// signature is SHA-256 over "path:operation:user:token[:expiry]", and tokens are random. So the
// sandbox is the one whose token makes the signature. envd checks the signature again, and the
// expiry. Cost: for a well-formed signature, one hash of at most SIGNED_TEXT_MAX_BYTES for each
// sandbox.

// Read the digest of a signature. Return false when it is malformed.
static bool read_digest(const char *signature, struct sha256 *out)
{
    struct buf raw auto_buf = BUF_INIT;
    if (!str_starts(signature, SIGNATURE_PREFIX) ||
        strlen(signature) != strlen(SIGNATURE_PREFIX) + SIGNATURE_CHARS ||
        !base64_decode(&raw, signature + strlen(SIGNATURE_PREFIX), SIGNATURE_CHARS) ||
        raw.len != sizeof out->bytes)
        return false;
    memcpy(out->bytes, raw.data, sizeof out->bytes);
    return true;
}

// `text` holds what precedes the token, and is restored.
static bool is_by(const struct sha256 *digest, struct buf *text, const char *token,
                  const char *expires)
{
    size_t before = text->len;
    buf_adds(text, token);
    if (expires)
        buf_printf(text, ":%s", expires);
    struct sha256 right = sha256_of(text->data, text->len);
    text->len = before;
    return sha256_equal(digest, &right);
}

bool proxy_signed_matches(const char *signature, const char *path, const char *operation,
                          const char *user, const char *token, const char *expires)
{
    struct sha256 digest;
    struct buf text auto_buf = BUF_INIT;
    buf_printf(&text, "%s:%s:%s:", path, operation, user);
    return read_digest(signature, &digest) && is_by(&digest, &text, token, expires);
}

static const char *or_empty(const char *s)
{
    return s ? s : "";
}

static bool is_past(const char *expires, int64_t now_s)
{
    int64_t at = 0;
    return expires && (!str_to_int(expires, INT64_MIN, INT64_MAX, &at) || at < now_s);
}

static const char *operation(const struct http_request *req)
{
    const char *method = http_request_method(req);
    if (str_eq(method, "GET") || str_eq(method, "HEAD"))
        return "read";
    return str_eq(method, "POST") ? "write" : NULL;
}

// Check all sandboxes, so that the time does not tell which one matched.
static struct sandbox *find_signer(struct store *store, const struct sha256 *digest,
                                   struct buf *text, const char *expires)
{
    struct sandbox *found = NULL;
    for (struct sandbox *sb = store_first(store); sb; sb = store_next(sb))
        if (sandbox_is_known(sb) && sb->token && is_by(digest, text, sb->token, expires))
            found = sb;
    return found;
}

static bool is_signed_by(struct http_request *req, const char *token, int64_t now_s)
{
    const char *signature = http_request_query(req, "signature", NULL);
    const char *path = or_empty(http_request_query(req, "path", NULL));
    const char *user = or_empty(http_request_query(req, "username", NULL));
    const char *expires = http_request_query(req, "signature_expiration", NULL);
    const char *expiry = expires && *expires ? expires : NULL; // as envd reads it
    return signature && operation(req) && !is_past(expiry, now_s) &&
           proxy_signed_matches(signature, path, operation(req), user, token, expiry);
}

// Return the sandbox that signed `req`. NULL with `e` set: ERR_INVALID when there is no signature
// or it cannot be one, ERR_UNAUTHENTICATED when no sandbox made it.
static struct sandbox *find_signed(struct store *store, struct http_request *req, struct err *e)
{
    const char *signature = http_request_query(req, "signature", NULL);
    const char *expires = http_request_query(req, "signature_expiration", NULL);
    struct sha256 digest;
    struct buf text auto_buf = BUF_INIT;
    if (!signature || !operation(req)) {
        err_set(e, ERR_INVALID,
                "this request does not name its sandbox: send the headers E2b-Sandbox-Id and "
                "E2b-Sandbox-Port, or use a URL with a signature");
        return NULL;
    }
    buf_printf(&text, "%s:%s:%s:", or_empty(http_request_query(req, "path", NULL)), operation(req),
               or_empty(http_request_query(req, "username", NULL)));
    if (text.len + strlen(or_empty(expires)) > SIGNED_TEXT_MAX_BYTES) {
        err_set(e, ERR_INVALID, "the path is too long");
        return NULL;
    }
    struct sandbox *sb =
        read_digest(signature, &digest) ? find_signer(store, &digest, &text, expires) : NULL;
    if (!sb)
        err_set(e, ERR_UNAUTHENTICATED, "invalid signature");
    return sb;
}

// ---- access

// Clients that wait for a sandbox to end ask for /health again and again.
static bool is_health(const struct proxy_target *to, const struct http_request *req)
{
    return route_use(to->port, http_request_method(req), to->path) == ROUTE_NOT_USED;
}

// Answer requests that no sandbox gets. The relay's port is not a port of the guest.
static bool refuse_reserved(struct http_request *req, const struct proxy_target *to)
{
    bool is_reserved = to->port == ENVD_RELAY_PORT ||
                       (to->port >= MOUNT_PORT_FIRST && to->port <= MOUNT_PORT_LAST) ||
                       (to->port == ENVD_PORT && route_is_reserved(to->path));
    if (is_reserved)
        proxy_error_reserved(req, to->path);
    else if (str_eq(http_request_method(req), "CONNECT"))
        reply_error(req, 501, NULL,
                    "CONNECT is not supported; send plain requests to the ports of a sandbox");
    else
        return false;
    return true;
}

static bool has(const struct http_request *req, const char *header, const char *secret)
{
    return str_eq_secret(http_request_header(req, header), secret);
}

// A browser asks, without a token, whether it may send one.
static bool is_preflight(const struct http_request *req)
{
    return str_eq(http_request_method(req), "OPTIONS") &&
           http_request_header(req, "Access-Control-Request-Method");
}

static bool needs_traffic_token(const struct sandbox *sb, const struct proxy_target *to)
{
    return sb->traffic_token && to->port != ENVD_PORT;
}

// envd checks its token itself, but only while the sandbox runs.
static bool needs_access_token(const struct sandbox *sb, const struct proxy_target *to)
{
    if (to->port == ENVD_PORT)
        return sb->token && sb->state != SANDBOX_RUNNING;
    return sb->token && to->port == KERNEL_PORT && route_runs_code(to->path);
}

static bool has_access(struct http_request *req, const struct sandbox *sb,
                       const struct proxy_target *to)
{
    if (http_request_header(req, "X-Access-Token"))
        return has(req, "X-Access-Token", sb->token);
    return to->port == ENVD_PORT && str_eq(to->path, "/files") &&
           is_signed_by(req, sb->token, clock_wall_ns() / 1000000000);
}

bool proxy_has_token(struct http_request *req, const struct sandbox *sb,
                     const struct proxy_target *to)
{
    return !sb->token || has_access(req, sb, to);
}

// A preflight has no token. Where one is needed it is answered here, and wakes nothing.
static bool refuse_stranger(struct http_request *req, const struct sandbox *sb,
                            const struct proxy_target *to)
{
    bool traffic = needs_traffic_token(sb, to);
    bool access = needs_access_token(sb, to);
    if ((traffic || access) && is_preflight(req))
        reply_preflight(req);
    else if (traffic && !has(req, "E2b-Traffic-Access-Token", sb->traffic_token))
        proxy_error(req, 403, sb->id, NULL,
                    "Public traffic to this sandbox is off: the header e2b-traffic-access-token "
                    "must hold its token");
    else if (access && !has_access(req, sb, to) && !sandbox_shows_running(sb))
        proxy_error(req, 403, sb->id, NULL,
                    "The sandbox is not running, and only a request with its access token "
                    "(X-Access-Token) may resume it");
    else if (access && !has_access(req, sb, to))
        reply_error(req, 401, NULL,
                    "unauthorized access, please provide a valid access token (X-Access-Token)");
    else
        return false;
    return true;
}

static bool goes_in(const struct sandbox *sb, const struct http_request *req,
                    const struct proxy_target *to)
{
    bool may_wake = (sb->auto_resume || sb->asleep) && !is_health(to, req);
    return sb->state == SANDBOX_RUNNING || may_wake;
}

static void pass_on(struct sandbox *sb, struct http_request *req, const struct proxy_target *to)
{
    if ((goes_in(sb, req, to) || to->port != ENVD_PORT) && refuse_stranger(req, sb, to))
        return;
    proxy_enter(sb, req, to);
}

void proxy_enter(struct sandbox *sb, struct http_request *req, const struct proxy_target *to)
{
    struct err full = ERR_INIT;
    if (sb->stream_count >= PROXY_STREAMS_MAX)
        proxy_error(req, 429, sb->id, NULL,
                    "The sandbox has %d requests open at once, which is the limit",
                    PROXY_STREAMS_MAX);
    else if (sb->state == SANDBOX_RUNNING && sb->machine && machine_stands(sb->machine, &full) < 0)
        proxy_error(req, 507, sb->id, "host_disk_full", "%s", full.msg);
    else if (goes_in(sb, req, to))
        proxy_stream_start(sb, req, to);
    else if (sb->asleep && is_health(to, req))
        reply_empty(req); // a sleeping sandbox is well, and /health must not wake it
    else if (sb->state == SANDBOX_PAUSED || is_health(to, req))
        proxy_error_gone(req, sb->store, sb->id);
    else
        proxy_error_transition(req, sb);
}

// ---- where a request goes

static void take_routed(struct store *store, struct http_request *req, const struct route *route)
{
    struct proxy_target to = {.port = route->port,
                              .target = http_request_target(req) + route->skip,
                              .path = http_request_path(req) + route->skip};
    if (route->domain && !route_in_domain(route->domain, store->domain)) {
        proxy_error(req, 421, route->id, NULL,
                    "The host names of this daemon's sandboxes end in %s; use one of them, or send "
                    "the headers E2b-Sandbox-Id and E2b-Sandbox-Port, or start cubbyd with another "
                    "--domain",
                    store->domain);
        return;
    }
    if (refuse_reserved(req, &to))
        return;
    struct sandbox *sb = store_find_any(store, route->id);
    if (sb)
        pass_on(sb, req, &to);
    else
        proxy_error_gone(req, store, route->id);
}

static void take_signed(struct store *store, struct http_request *req)
{
    struct err e = ERR_INIT;
    struct proxy_target to = {
        .port = ENVD_PORT, .target = http_request_target(req), .path = http_request_path(req)};
    struct sandbox *sb = find_signed(store, req, &e);
    if (sb)
        pass_on(sb, req, &to);
    else
        reply_err(req, NULL, &e);
}

bool proxy_takes(struct store *store, struct http_request *req)
{
    struct route route;
    struct err e = ERR_INIT;
    size_t count = 0;
    const struct http_header *headers = http_request_headers(req, &count);
    switch (route_parse(headers, count, http_request_target(req), &route, &e)) {
    case ROUTE_SANDBOX:
        take_routed(store, req, &route);
        return true;
    case ROUTE_BAD:
        reply_err(req, NULL, &e);
        return true;
    case ROUTE_CONTROL:
        break;
    }
    if (route_names_port(http_request_header(req, "Host"), store->domain))
        proxy_error(req, 502, NULL, "sandbox_not_found", "The sandbox was not found");
    else if (str_eq(http_request_path(req), "/files"))
        take_signed(store, req);
    else
        return false;
    return true;
}
