// SPDX-License-Identifier: Apache-2.0
// What every handler of envd works with. One of it a program; made in main.c.
#pragma once
#include <stdbool.h>
#include <uv.h>

#include "sandbox-backend/envd/names.h"
#include "sandbox-backend/envd/process.h"
#include "sandbox-backend/envd/settings.h"
#include "sandbox-backend/envd/users.h"
#include "sandbox-backend/net/http_server.h"

struct freeze;
struct polled_watch;
struct rpc;

struct envd {
    uv_loop_t *loop;
    bool owns_machine; // the guest's envd: /init may set clock, entropy, names
    struct names names;
    struct settings settings;
    struct users *users;
    struct processes *processes;
    struct freeze *freeze;       // owned
    struct polled_watch *polled; // those whose events clients ask for; see watch_poll.c
    int watch_count;             // of both kinds
    struct http_server *server;
    struct rpc *unsent;  // calls with something to send; see rpc.c
    uv_prepare_t before; // send it
    uv_check_t after;
};
