// SPDX-License-Identifier: Apache-2.0
// Limits and ports that several parts share. Sizes in bytes.
#pragma once

#define LIMIT_HTTP_HEAD_BYTES    65536    // request line and headers
#define LIMIT_JSON_BODY_BYTES    4194304  // a JSON request or response that is collected
#define LIMIT_ENVELOPE_BYTES     4194304  // one Connect message
#define LIMIT_STDIO_LINE_BYTES   67108864 // one JSON-RPC line
#define LIMIT_STREAM_QUEUE_BYTES 262144   // unsent bytes after which a source is paused
#define LIMIT_OUTPUT_CHUNK_BYTES 32768    // one stdout or stderr event
#define LIMIT_PTY_CHUNK_BYTES    16384    // one event of a terminal

// Processes and threads of a guest whose kernel counts them in control groups (gVisor's): of all
// commands together, of one of them, and of the Python kernel with its contexts. Without a limit,
// one process too many ends the sentry.
#define LIMIT_COMMANDS_TASKS 1000
#define LIMIT_COMMAND_TASKS  900
#define LIMIT_KERNEL_TASKS   500

#define ENVD_PORT       49983
#define ENVD_RELAY_PORT 49982 // envd's relay to ports of the guest's loopback; never public
#define KERNEL_PORT     49999 // the Python kernel's
// mountfs's, one a mount; below those that the guest's kernel gives to connections. Never public
#define MOUNT_PORT_FIRST 31960
#define MOUNT_PORT_LAST  31975
