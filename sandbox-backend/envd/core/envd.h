// SPDX-License-Identifier: Apache-2.0
// The state that every handler of envd gets. The program has one, which main.c makes. The rooms own
// the objects behind the opaque pointers.
#pragma once
#include <stdbool.h>
#include <sys/queue.h>
#include <uv.h>

#include "sandbox-backend/base/users.h"
#include "sandbox-backend/envd/core/settings.h"
#include "sandbox-backend/net/http_server.h"

struct quiesce;
struct names;
struct polled_watch;
struct processes;
struct rpc;

struct envd {
    uv_loop_t *loop;
    bool owns_machine; // envd runs in the guest: /init may set clock, entropy, disk and names
    bool owns_files;   // /init may change files of the system; true for owns_machine, too
    struct settings settings;
    struct users *users;
    struct http_server *server;
    struct names *names;         // guest/names.h
    struct quiesce *quiesce;     // guest/quiesce.h
    struct processes *processes; // process/process.h
    // Watches (fs/watch_rpc.h).
    LIST_HEAD(polled_list, polled_watch) polled;
    int watch_count; // polled watches and streams
    // Calls with something to send, and the loop's hooks that send it (rpc/rpc_answer.c).
    LIST_HEAD(unsent_list, rpc) unsent;
    uv_prepare_t before;
    uv_check_t after;
};
