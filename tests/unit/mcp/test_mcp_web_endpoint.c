// SPDX-License-Identifier: Apache-2.0
// An endpoint that cannot be opened leaves nothing behind.
#include <signal.h>
#include <string.h>

#include "mcp-server/tools/call/tools.h"
#include "mcp-server/web/web_endpoint.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/net/http_server.h"
#include "tests/lib/harness/tap.h"

static uv_loop_t loop;

static void fails(struct config *config, const char *says)
{
    struct err e = ERR_INIT;
    struct context context;
    uv_loop_init(&loop);
    context_init(&context, &loop, config);
    ok(!web_endpoint_open(&context, &e), "it does not start");
    ok(strstr(e.msg, says), "because %s", e.msg);
    context_close(&context);
    uv_run(&loop, UV_RUN_DEFAULT);
    tools_fini(&context);
    context_fini(&context);
    is_int(uv_loop_close(&loop), 0, "nothing is left in the loop");
}

static void test_port_in_use(void)
{
    uv_loop_t other;
    struct err e = ERR_INIT;
    const struct http_server_opts opts = {0};
    uv_loop_init(&other);
    struct http_server *taken = http_server_new(&other, &opts);
    ok(http_server_listen_tcp(taken, "127.0.0.1", 0, &e) == 0, "a port is taken %s", e.msg);
    char *address auto_free = str_printf("127.0.0.1:%d", http_server_port(taken));
    struct config config;
    config_defaults(&config);
    config.http = address;
    fails(&config, "in use");
    http_server_close(taken, NULL, NULL);
    uv_run(&other, UV_RUN_DEFAULT);
    uv_loop_close(&other);
}

static void test_no_token_file(void)
{
    struct config config;
    config_defaults(&config);
    config.http = "127.0.0.1:0";
    config.token_file = "/nonexistent";
    fails(&config, "/nonexistent");
}

static void test_no_certificate(void)
{
    struct config config;
    config_defaults(&config);
    config.http = "127.0.0.1:0";
    config.tls_cert = config.tls_key = "/nonexistent";
    fails(&config, "/nonexistent");
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    test_port_in_use();
    test_no_token_file();
    test_no_certificate();
    return tap_done();
}
