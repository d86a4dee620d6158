// SPDX-License-Identifier: Apache-2.0
// download_file_from_internet_to_sandbox: the host downloads, under the host's own rules. So it
// works only for a sandbox that may reach all public addresses. For another sandbox it would bypass
// the policy, in both directions, because a URL carries data too.
//
// Steps: 1. check the sandbox and its network policy; 2. download into an unlinked temporary file;
// 3. find the file's path in the sandbox; 4. upload it.
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "mcp-server/text/text.h"
#include "mcp-server/tools/files/file_name.h"
#include "mcp-server/tools/files/guest_file.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/client/client.h"
#include "sandbox-backend/net/fetch_guard.h"
#include "sandbox-backend/net/http_client.h"

#define TIMEOUT_MS    300000
#define REDIRECTS_MAX 5
#define POLICY_MS     5000

#define SHOWN_BYTES_MAX 2000 // of a URL, in a command that is to be copied: all of it, or none

struct internet {
    struct tool_call *call;
    struct fetch_guard guard;
    struct http_fetch *fetch; // borrowed; NULL unless it runs
    int fd;                   // owned; the bytes so far
    int64_t bytes;
    int status;
    char *name;     // owned: what the file is called
    char *url;      // owned: after redirects
    struct err own; // why we ended the fetch ourselves
};

static void internet_free(struct internet *in)
{
    if (in->fd >= 0)
        close(in->fd);
    free(in->name);
    free(in->url);
    free(in);
}

static int64_t timeout_ms(const struct tool_call *c)
{
    const json_t *timeout = json_object_get(c->args, "timeout");
    return timeout ? (int64_t)(json_number_value(timeout) * 1000) : TIMEOUT_MS;
}

static void fail(struct internet *in, const char *what, const struct err *e)
{
    struct tool_call *c = in->call;
    struct err copy = *e;
    internet_free(in);
    c->state = NULL;
    tool_call_fail_err(c, what, &copy);
}

// ---- 4.

static void on_uploaded(const char *path, int64_t bytes, const struct err *e, void *ctx)
{
    struct internet *in = ctx;
    struct tool_call *c = in->call;
    c->op = NULL;
    if (e) {
        fail(in, "upload the file", e);
        return;
    }
    json_t *structured = json_object();
    json_object_set_new(structured, "path", json_string(path));
    json_object_set_new(structured, "bytes", json_integer(bytes));
    json_object_set_new(structured, "url", json_lossy_string(in->url, strlen(in->url)));
    tool_call_add_link(c, path, NULL, bytes);
    internet_free(in);
    tool_call_finish(c, structured);
}

// ---- 3.

static void on_found(struct tool_call *c, char *path, void *ctx)
{
    struct internet *in = ctx;
    struct err e = ERR_INIT;
    if (c->cancelled)
        err_set(&e, ERR_CANCELED, "cancelled");
    else if (lseek(in->fd, 0, SEEK_SET) < 0)
        err_sys(&e, errno, "rewind the download");
    if (err_is(&e))
        fail(in, "upload the file", &e);
    else
        c->op = client_upload(c->context->client, c->id, steal_fd(&in->fd), path, NULL, on_uploaded,
                              in);
    free(path);
}

// ---- 2.

static void on_head(int status, const struct http_header *headers, size_t count, const char *url,
                    void *ctx)
{
    struct internet *in = ctx;
    free(in->name);
    free(in->url);
    in->status = status;
    in->url = xstrdup(url);
    in->name = file_name_of(http_header_get(headers, count, "Content-Disposition"), url);
}

static void stop(struct internet *in)
{
    if (in->fetch)
        http_fetch_cancel(in->fetch);
}

static bool on_data(const char *data, size_t len, void *ctx)
{
    struct internet *in = ctx;
    int64_t max = in->call->context->config->max_download_bytes;
    if (err_is(&in->own) || in->status / 100 != 2)
        return true; // an error's page is of no use
    in->bytes += (int64_t)len;
    in->call->bytes = in->bytes;
    if (in->bytes > max)
        err_set(
            &in->own, ERR_TOO_LARGE,
            "the file has more than %lld bytes, the limit of this server (--max-download-bytes)",
            (long long)max);
    else if (fd_write_all(in->fd, data, len, &in->own) == 0)
        return true;
    stop(in);
    return true;
}

static void on_end(const struct err *e, void *ctx)
{
    struct internet *in = ctx;
    struct tool_call *c = in->call;
    in->fetch = NULL;
    c->on_cancel = NULL;
    if (c->cancelled) {
        fail(in, "download", &(struct err){.code = ERR_CANCELED});
    } else if (err_is(&in->own)) {
        fail(in, "download", &in->own);
    } else if (e && e->code == ERR_DENIED) {
        struct err copy = *e;
        internet_free(in);
        tool_call_fail(c, "denied", "%s: downloads from private addresses are refused", copy.msg);
    } else if (e && e->code == ERR_NOT_FOUND) { // a name that does not resolve, not a sandbox
        internet_free(in);
        tool_call_fail(c, "fetch_failed", "could not download the url: %s", e->msg);
    } else if (e) {
        fail(in, "download the url", e);
    } else if (in->status / 100 != 2) {
        int status = in->status;
        internet_free(in);
        tool_call_fail(c, "http_error", "the url answered HTTP %d (%s)", status,
                       http_status_text(status));
    } else {
        guest_path_find(c, tool_call_string(c, "sandbox_file_path"), in->name, on_found, in);
    }
}

static bool on_address(const struct sockaddr *address, void *ctx)
{
    const struct internet *in = ctx;
    return fetch_guard_allows(&in->guard, address);
}

static void on_cancel(struct tool_call *c)
{
    stop(c->state);
}

static void start_fetch(struct internet *in)
{
    static const struct http_fetch_events EVENTS = {
        .on_head = on_head, .on_data = on_data, .on_end = on_end};
    struct tool_call *c = in->call;
    struct http_fetch_opts opts = {
        .method = "GET",
        .url = tool_call_string(c, "url"),
        .total_timeout_ms = (uint64_t)timeout_ms(c),
        .max_redirects = REDIRECTS_MAX,
        .allow_address = on_address,
    };
    c->state = in;
    c->on_cancel = on_cancel;
    in->fetch = http_fetch_start(context_http(c->context), &opts, &EVENTS, in);
}

// ---- 1.

// Return whether the sandbox may reach all public addresses. If the backend reports no policy
// (`info` is NULL), --network decides.
static bool is_open(const struct config *config, const json_t *info)
{
    const json_t *policy = json_object_get(info, "policy");
    if (!info)
        return !config->network || str_eq(config->network, "public");
    return str_eq(text_string(policy, "mode"), "public") &&
           json_array_size(json_object_get(policy, "deny")) == 0;
}

static void refuse(struct internet *in)
{
    struct tool_call *c = in->call;
    const char *url = tool_call_string(c, "url");
    char *word auto_free = strlen(url) > SHOWN_BYTES_MAX ? xstrdup("URL") : str_shell_word(url);
    internet_free(in);
    c->state = NULL;
    tool_call_fail(c, "denied",
                   "this sandbox has a network policy of its own, which this tool would bypass, "
                   "because it downloads from outside the sandbox. Download the file inside the "
                   "sandbox, with run_command: curl -fLO %s",
                   word);
}

static void on_policy(const json_t *info, const struct err *e, void *ctx)
{
    struct internet *in = ctx;
    struct tool_call *c = in->call;
    c->op = NULL;
    if (c->cancelled)
        fail(in, "download", &(struct err){.code = ERR_CANCELED});
    else if (e && e->code != ERR_UNIMPLEMENTED)
        fail(in, "read the sandbox's network policy", e);
    else if (is_open(c->context->config, info))
        start_fetch(in);
    else
        refuse(in);
}

static void on_there(const json_t *info, const struct err *e, void *ctx)
{
    (void)info;
    struct internet *in = ctx;
    struct tool_call *c = in->call;
    c->op = NULL;
    if (e)
        fail(in, "reach the sandbox", e);
    else if (c->cancelled)
        fail(in, "download", &(struct err){.code = ERR_CANCELED});
    else
        c->op = client_network(c->context->client, c->id, 0, POLICY_MS, on_policy, in);
}

static void start(struct tool_call *c)
{
    struct err e = ERR_INIT;
    const char *url = tool_call_string(c, "url");
    if (strncasecmp(url, "http://", 7) != 0 && strncasecmp(url, "https://", 8) != 0) {
        tool_call_fail(c, "invalid_argument",
                       "invalid url: it must begin with http:// or https://");
        return;
    }
    struct client *client = tool_call_client(c, timeout_ms(c) / 1000);
    if (!client)
        return;
    struct internet *in = xmalloc(sizeof *in);
    *in = (struct internet){.call = c, .fd = fd_open_temp(&e)};
    if (in->fd < 0 || fetch_guard_init(&in->guard, &c->context->config->allow_from,
                                       "allow-download-from", &e) < 0) {
        fail(in, "download", &e);
        return;
    }
    c->op = client_get(client, c->id, on_there, in);
}

static char *text_of(const json_t *o)
{
    return text_of_file("File downloaded to", o);
}

const struct tool tool_download_file_from_internet_to_sandbox = {
    .name = "download_file_from_internet_to_sandbox", .start = start, .text = text_of};
