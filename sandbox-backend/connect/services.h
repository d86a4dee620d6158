// SPDX-License-Identifier: Apache-2.0
// The methods of process.Process and filesystem.Filesystem, envd's two services, and their
// messages.
#pragma once
#include "sandbox-backend/connect/proto.h"

enum service_kind {
    SERVICE_UNARY,
    SERVICE_SERVER_STREAM, // one message, many answers
    SERVICE_CLIENT_STREAM, // many messages, one answer
};

struct service_method {
    const char *path; // "/process.Process/Start"
    enum service_kind kind;
    const struct proto_message *request;
    const struct proto_message *response;
};

// Return the method of that path, or NULL.
const struct service_method *service_method(const char *path);
