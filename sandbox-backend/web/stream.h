// SPDX-License-Identifier: Apache-2.0
// A call of envd whose answer does not end, such as that of a terminal, over a WebSocket. HTTP
// requests would do, but a browser makes only six of them at a time to one server.
//
// The page's first message is the call:
//   {"target": "/box/ID/process.Process/Start", "token": access token, "authorization": header,
//    "message": {...}}
// Each binary message of the answer has bytes of envd's answer: Connect envelopes, however split.
// The page says {"taken": N} when it has used N more of these bytes. If it does not, envd waits,
// and so does the program in the sandbox. The last message is a text: {"status": HTTP status,
// "message": why it ended}.
#pragma once
#include "sandbox-backend/net/http_server.h"
#include "sandbox-backend/web/backend.h"

struct streams {
    const struct backend *backend; // borrowed
    struct stream *first;
};

void streams_accept(struct streams *s, struct http_request *req);
void streams_close(struct streams *s); // end all of them
