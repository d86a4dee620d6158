// SPDX-License-Identifier: Apache-2.0
// Streams that a proxy on the way holds back. CubeProxy as shipped (nginx, proxy_buffering on)
// passes a stream on when 16 KiB of it are there or when it has ended. A command that starts,
// prints little and runs on then looks like a dead one.
//
// A held watch finds that out: if a stream has brought nothing after a moment, the watch asks envd
// for its list of processes, by a short call that no proxy holds back. A process with the
// command's tag proves that the command runs. The watch then asks again and again, because nothing
// else tells a quiet command from a broken stream. For client/ only.
#pragma once
#include <stdint.h>

#include "sandbox-backend/client/client_internal.h"

// Until a stream without a byte is looked into, once the proxy is known to hold streams back.
// Before that it is the client's times.held_first.
#define HELD_KNOWN_MS 50

struct held;

// Called from the loop. Each may call held_stop.
struct held_events {
    void (*on_found)(int64_t pid, void *ctx); // once: the process runs, and its stream is held back
    void (*on_alive)(void *ctx);              // it still runs
    void (*on_ended)(void *ctx);              // once: it has ended
    void (*on_lost)(const struct err *e, void *ctx); // once: the sandbox is gone or paused
    void (*on_stopped)(void *ctx); // last, after held_stop; the watch is freed afterwards
};

// Watch the process with this tag, which a stream of the sandbox is about. All strings are copied.
struct held *held_watch(struct client *c, const char *id, const char *tag, const char *user,
                        const struct held_events *events, void *ctx);
void held_stop(struct held *h); // on_stopped follows from the loop

// Return whether the way to this client's sandboxes may hold streams back.
bool held_is_possible(const struct client *c);
// Return whether `e`, of a short call to the sandbox, says that a stream of it will bring no more.
bool held_is_lost(const struct err *e);
