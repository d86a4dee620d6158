// SPDX-License-Identifier: Apache-2.0
// Messages of envd and of the Python kernel, as far as the call log tells of them. The guest is not
// trusted: what it answers is text and numbers, and whatever is malformed is left out.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/connect/services.h"
#include "sandbox-backend/daemon/calls/call_log.h"
#include "sandbox-backend/daemon/calls/pieces.h"

#define CALL_TEXT_BYTES 16384 // of a command with its arguments, or of code
#define CALL_PATH_BYTES 4096
#define CALL_LINE_BYTES 8192 // of a line of the Python kernel, unless it has a result

// ---- requests

// Decode the message of a request, from its body as it came. New reference; NULL: it is malformed.
json_t *call_message(const struct service_method *m, bool is_proto, bool is_gzip,
                     const struct buf *body);
// Tell of a Start: command, arguments, directory, names of variables, tag, size of its terminal.
void call_tell_command(const struct call_place *p, const json_t *message, json_t *line);
// Tell of a request of the Python kernel: language, context, code.
void call_tell_code(const struct call_place *p, const json_t *body, json_t *line);
// Tell of another request: its process, signal, size, path or paths.
void call_tell_other(const struct call_place *p, const json_t *message, json_t *line);
// Mark the values of the environment in a request.
void call_hide_environment(const struct call_place *p, const json_t *variables);
// Set a text member, masked and cut; NULL sets nothing.
void call_set_text(const struct call_place *p, json_t *line, const char *key, const char *text,
                   size_t max);

// ---- answers

// Output in an envelope of Start or Connect.
struct call_data {
    const char *stream; // "stdout", "stderr" or "pty"; a literal
    struct buf bytes;   // owned; the first ones
    int64_t all;        // how many there are
};
// Return whether the envelope is output, and read it.
bool call_read_data(const struct piece *p, bool is_proto, struct call_data *out);
// Tell of another envelope: the process id, the exit status, the error of the call.
void call_tell_event(const struct call_place *p, const struct piece *piece, bool is_proto,
                     const struct service_method *m, json_t *line);
// Return the object of a line of the Python kernel. A long line, and one with too many values, is
// cut to its first bytes, and the rest of its members is lost. New reference, or NULL.
json_t *call_kernel_line(const struct piece *p);
