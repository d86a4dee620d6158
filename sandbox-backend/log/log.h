// SPDX-License-Identifier: Apache-2.0
// Logging: one line for each event, "<time> <level> <event> <key=value ...>", to stderr or a file.
// Lines hold no secrets. Control characters are written as \xNN, so a guest's bytes are harmless.
#pragma once

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

void log_set_level(enum log_level level); // default LOG_INFO
int log_parse_level(const char *name);    // "error" ... "debug"; -1 for others
void log_set_fd(int fd);                  // borrowed; default stderr

// log_write(LOG_INFO, "sandbox.created", "id=%s ms=%d", id, ms). `event` is "<object>.<verb>".
void log_write(enum log_level level, const char *event, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)
#define log_warn(...)  log_write(LOG_WARN, __VA_ARGS__)
#define log_info(...)  log_write(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_write(LOG_DEBUG, __VA_ARGS__)
