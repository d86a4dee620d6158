# SPDX-License-Identifier: Apache-2.0
"""Every limit and every wait of the kernel."""

KIB = 1024
MIB = 1024 * KIB

# ---- HTTP
CONNECTIONS_MAX = 64
HEAD_BYTES_MAX = 32 * KIB
BODY_BYTES_MAX = 16 * MIB
CHUNK_LINE_BYTES_MAX = 1 * KIB
WRITE_BYTES_MAX = 64 * KIB  # unsent bytes of a connection before its writer waits
UNSENT_BYTES_MAX = 16 * KIB  # of lines that are put together for one packet
READ_BYTES_MAX = 256 * KIB  # unread bytes of a connection before we stop reading it
HEADS_KEPT = 16  # parsed ones, of requests
IDLE_SECONDS = 600  # between two requests of a connection; clients are told
HOLD_SECONDS = 0.02  # an answer's head waits so long for its first line
HEAD_SECONDS = 75  # a slow connection is closed
BODY_SECONDS = 60
WRITE_SECONDS = 300  # a client that takes nothing for so long is gone

# ---- contexts and runs
CONTEXTS_MAX = 16
QUEUE_MAX = 32  # runs that wait in one context
ENVIRONMENT_BYTES_MAX = 6 * MIB  # envd takes 4 MiB, and may write what it was told longer
KEEPALIVE_SECONDS = 5
GRACE_SECONDS = 5  # an abandoned run that ignores SIGINT is killed
BASH_PRESSES = 4  # how often bash is sent SIGINT for one interrupt, while its run goes on
BASH_PRESS_SECONDS = 1
BASH_SETTLE_SECONDS = 5  # for it to take a SIGINT that came after the end of the run
START_SECONDS = 600  # of the zygote: 15 s under emulation, minutes on a host that is busy, too
FORK_SECONDS = 30
TAKEN_SECONDS = 0.01  # between two looks whether a process has taken a run that is to be interrupted
END_SECONDS = 10  # of a killed process

# ---- between a context and the server
FRAME_BYTES_MAX = 24 * MIB
RESULT_BYTES_MAX = 16 * MIB  # of one result, all representations, as JSON
ERROR_CHARACTERS_MAX = 1 * MIB  # of an error's value, and of its traceback
OUTPUT_READ_BYTES = 64 * KIB
BETWEEN_RUNS_BYTES_MAX = 64 * KIB  # kept of what is written while no run is going on, a stream
DATA_CELLS_MAX = 50_000  # of a DataFrame's data, and points of a chart
