// SPDX-License-Identifier: Apache-2.0
// Dockerfiles as JSON. The parser checks everything that can be checked without the base images and
// the variables, and expands nothing.
//
//   {"escape": "\\",
//    "args": [STEP ...],                       the ARG instructions before the first FROM
//    "stages": [{"line": 1, "text": "FROM ...", "from": "python:3.12", "name": "build" or absent,
//                "steps": [STEP ...]} ...]}
//
// A STEP is {"type": "RUN", "line": 3, "text": "RUN make", ...}. The other members:
//
//   RUN              "args": [command], or with "exec": true the words of the JSON form;
//                    "make": directories of --mount=type=cache, or absent
//   CMD ENTRYPOINT   "args", "exec" as RUN; HEALTHCHECK also, "args": [] for NONE
//   SHELL            "args"
//   COPY ADD         "sources": [...], "dest", "user", "mode" ("" for none), "from" or absent,
//                    "files": [{"name", "text", "literal"}], the here-documents among the sources
//   ENV LABEL        "args": [name, value, ...]
//   ARG              "args": [name, default or null, ...]
//   WORKDIR USER     "args": [text]
//   VOLUME EXPOSE    "args": [text, ...]
//   STOPSIGNAL       "args": [text]
#pragma once
#include <jansson.h>
#include <stddef.h>

#include "sandbox-backend/base/err.h"

#define DOCKERFILE_STAGES_MAX 64
#define DOCKERFILE_STEPS_MAX  1000 // of all stages

// New reference, or NULL with ERR_INVALID; the message begins with "line N: ".
json_t *dockerfile_parse(const char *text, size_t len, struct err *e);
