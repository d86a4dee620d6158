# SPDX-License-Identifier: Apache-2.0
"""All limits and waits of the Python kernel."""

KIB = 1024
MIB = 1024 * KIB

# ---- HTTP
CONNECTIONS_MAX = 64
HEAD_BYTES_MAX = 32 * KIB
BODY_BYTES_MAX = 16 * MIB
CHUNK_LINE_BYTES_MAX = 1 * KIB
WRITE_BYTES_MAX = 64 * KIB  # unsent bytes of a connection before its writer waits
UNSENT_BYTES_MAX = 16 * KIB  # of lines that are collected for one packet
READ_BYTES_MAX = 256 * KIB  # unread bytes of a connection before the server stops reading
HEADS_KEPT = 16  # parsed heads of requests
IDLE_SECONDS = 600  # between two requests of a connection; responses declare it
HOLD_SECONDS = 0.02  # how long the head of a response waits for its first line
HEAD_SECONDS = 75  # a slow connection is closed
BODY_SECONDS = 60
WRITE_SECONDS = 300  # a client that reads nothing for so long has left

# ---- contexts and runs
CONTEXTS_MAX = 16
QUEUE_MAX = 32  # waiting runs of one context
ENVIRONMENT_BYTES_MAX = 6 * MIB  # envd accepts 4 MiB, and its file may be longer
KEEPALIVE_SECONDS = 5
GRACE_SECONDS = 5  # an abandoned run that ignores SIGINT is killed
BASH_PRESSES = 4  # SIGINTs to bash for one interrupt, while the run continues
BASH_PRESS_SECONDS = 1
BASH_SETTLE_SECONDS = 5  # for bash to take a SIGINT that came after the end of the run
START_SECONDS = 600  # for the zygote: 15 s under emulation, minutes if the host is also busy
FORK_SECONDS = 30
TAKEN_SECONDS = 0.01  # between two checks whether a process has taken a run that it should interrupt
END_SECONDS = 10  # for the end of a killed process

# ---- between a context and the server
FRAME_BYTES_MAX = 24 * MIB
RESULT_BYTES_MAX = 16 * MIB  # of one result with all representations, as JSON
ERROR_CHARACTERS_MAX = 1 * MIB  # of an error's value, and of its traceback
OUTPUT_READ_BYTES = 64 * KIB
BETWEEN_RUNS_BYTES_MAX = 64 * KIB  # kept output of one stream between two runs
IMAGES_MAX = 16  # saved images that one run shows
DATA_CELLS_MAX = 50_000  # of a DataFrame's data; also points of a chart
