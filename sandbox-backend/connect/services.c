// SPDX-License-Identifier: Apache-2.0
// envd's two services as tables, after process.proto and filesystem.proto of E2B's envd.
#include "sandbox-backend/connect/services.h"

#include <string.h>

#include "sandbox-backend/base/mem.h"

#define MESSAGE(name) \
    static const struct proto_message name = {ARRAY_LEN(name##_FIELDS), name##_FIELDS}
#define FIELD static const struct proto_field
#define F(field_number, field_type, json_name) \
    .number = (field_number), .type = PROTO_##field_type, .name = (json_name)

static const struct proto_message EMPTY = {0, NULL};

// ---- process.Process

static const struct proto_enum SIGNALS[] = {
    {"SIGNAL_UNSPECIFIED", 0}, {"SIGNAL_SIGTERM", 15}, {"SIGNAL_SIGKILL", 9}, {NULL, 0}};

FIELD SIZE_FIELDS[] = {
    {F(1, UINT32, "cols")},
    {F(2, UINT32, "rows")},
};
MESSAGE(SIZE);
FIELD PTY_FIELDS[] = {{F(1, MESSAGE, "size"), .message = &SIZE}};
MESSAGE(PTY);
FIELD CONFIG_FIELDS[] = {
    {F(1, STRING, "cmd")},
    {F(2, STRING, "args"), .repeated = true},
    {F(3, STRING_MAP, "envs")},
    {F(4, STRING, "cwd"), .has_presence = true},
};
MESSAGE(CONFIG);
FIELD INFO_FIELDS[] = {
    {F(1, MESSAGE, "config"), .message = &CONFIG},
    {F(2, UINT32, "pid")},
    {F(3, STRING, "tag"), .has_presence = true},
};
MESSAGE(INFO);
FIELD LIST_FIELDS[] = {{F(1, MESSAGE, "processes"), .message = &INFO, .repeated = true}};
MESSAGE(LIST);
FIELD START_REQUEST_FIELDS[] = {
    {F(1, MESSAGE, "process"), .message = &CONFIG},
    {F(2, MESSAGE, "pty"), .message = &PTY, .has_presence = true},
    {F(3, STRING, "tag"), .has_presence = true},
    {F(4, BOOL, "stdin"), .has_presence = true},
};
MESSAGE(START_REQUEST);

FIELD STARTED_FIELDS[] = {{F(1, UINT32, "pid")}};
MESSAGE(STARTED);
FIELD DATA_FIELDS[] = {
    {F(1, BYTES, "stdout"), .oneof = 1},
    {F(2, BYTES, "stderr"), .oneof = 1},
    {F(3, BYTES, "pty"), .oneof = 1},
};
MESSAGE(DATA);
FIELD END_FIELDS[] = {
    {F(1, SINT32, "exitCode"), .original = "exit_code"},
    {F(2, BOOL, "exited")},
    {F(3, STRING, "status")},
    {F(4, STRING, "error"), .has_presence = true},
};
MESSAGE(END);
FIELD EVENT_FIELDS[] = {
    {F(1, MESSAGE, "start"), .message = &STARTED, .oneof = 1},
    {F(2, MESSAGE, "data"), .message = &DATA, .oneof = 1},
    {F(3, MESSAGE, "end"), .message = &END, .oneof = 1},
    {F(4, MESSAGE, "keepalive"), .message = &EMPTY, .oneof = 1},
};
MESSAGE(EVENT);
FIELD EVENT_RESPONSE_FIELDS[] = {{F(1, MESSAGE, "event"), .message = &EVENT}};
MESSAGE(EVENT_RESPONSE);

FIELD SELECTOR_FIELDS[] = {
    {F(1, UINT32, "pid"), .oneof = 1},
    {F(2, STRING, "tag"), .oneof = 1},
};
MESSAGE(SELECTOR);
FIELD SELECT_FIELDS[] = {{F(1, MESSAGE, "process"), .message = &SELECTOR}};
MESSAGE(SELECT);
FIELD UPDATE_FIELDS[] = {
    {F(1, MESSAGE, "process"), .message = &SELECTOR},
    {F(2, MESSAGE, "pty"), .message = &PTY, .has_presence = true},
};
MESSAGE(UPDATE);
FIELD INPUT_FIELDS[] = {
    {F(1, BYTES, "stdin"), .oneof = 1},
    {F(2, BYTES, "pty"), .oneof = 1},
};
MESSAGE(INPUT);
FIELD SEND_INPUT_FIELDS[] = {
    {F(1, MESSAGE, "process"), .message = &SELECTOR},
    {F(2, MESSAGE, "input"), .message = &INPUT},
};
MESSAGE(SEND_INPUT);
FIELD STREAM_DATA_FIELDS[] = {{F(2, MESSAGE, "input"), .message = &INPUT}};
MESSAGE(STREAM_DATA);
FIELD STREAM_INPUT_FIELDS[] = {
    {F(1, MESSAGE, "start"), .message = &SELECT, .oneof = 1},
    {F(2, MESSAGE, "data"), .message = &STREAM_DATA, .oneof = 1},
    {F(3, MESSAGE, "keepalive"), .message = &EMPTY, .oneof = 1},
};
MESSAGE(STREAM_INPUT);
FIELD SEND_SIGNAL_FIELDS[] = {
    {F(1, MESSAGE, "process"), .message = &SELECTOR},
    {F(2, ENUM, "signal"), .values = SIGNALS},
    {F(1000, BOOL, "group")}, // Cubby's own
};
MESSAGE(SEND_SIGNAL);

// ---- filesystem.Filesystem

static const struct proto_enum FILE_TYPES[] = {{"FILE_TYPE_UNSPECIFIED", 0},
                                               {"FILE_TYPE_FILE", 1},
                                               {"FILE_TYPE_DIRECTORY", 2},
                                               {"FILE_TYPE_SYMLINK", 3},
                                               {NULL, 0}};
static const struct proto_enum EVENT_TYPES[] = {{"EVENT_TYPE_UNSPECIFIED", 0},
                                                {"EVENT_TYPE_CREATE", 1},
                                                {"EVENT_TYPE_WRITE", 2},
                                                {"EVENT_TYPE_REMOVE", 3},
                                                {"EVENT_TYPE_RENAME", 4},
                                                {"EVENT_TYPE_CHMOD", 5},
                                                {NULL, 0}};

FIELD ENTRY_FIELDS[] = {
    {F(1, STRING, "name")},
    {F(2, ENUM, "type"), .values = FILE_TYPES},
    {F(3, STRING, "path")},
    {F(4, INT64, "size")},
    {F(5, UINT32, "mode")},
    {F(6, STRING, "permissions")},
    {F(7, STRING, "owner")},
    {F(8, STRING, "group")},
    {F(9, TIMESTAMP, "modifiedTime"), .original = "modified_time"},
    {F(10, STRING, "symlinkTarget"), .original = "symlink_target", .has_presence = true},
    {F(11, STRING_MAP, "metadata")},
};
MESSAGE(ENTRY);
FIELD ENTRY_RESPONSE_FIELDS[] = {{F(1, MESSAGE, "entry"), .message = &ENTRY}};
MESSAGE(ENTRY_RESPONSE);
FIELD ENTRIES_FIELDS[] = {{F(1, MESSAGE, "entries"), .message = &ENTRY, .repeated = true}};
MESSAGE(ENTRIES);
FIELD PATH_FIELDS[] = {{F(1, STRING, "path")}};
MESSAGE(PATH);
FIELD MOVE_FIELDS[] = {
    {F(1, STRING, "source")},
    {F(2, STRING, "destination")},
};
MESSAGE(MOVE);
FIELD LIST_DIR_FIELDS[] = {
    {F(1, STRING, "path")},
    {F(2, UINT32, "depth")},
};
MESSAGE(LIST_DIR);
FIELD WATCH_FIELDS[] = {
    {F(1, STRING, "path")},
    {F(2, BOOL, "recursive")},
    {F(3, BOOL, "includeEntry"), .original = "include_entry"},
    {F(4, BOOL, "allowNetworkMounts"), .original = "allow_network_mounts"},
};
MESSAGE(WATCH);
FIELD CHANGE_FIELDS[] = {
    {F(1, STRING, "name")},
    {F(2, ENUM, "type"), .values = EVENT_TYPES},
    {F(3, MESSAGE, "entry"), .message = &ENTRY, .has_presence = true},
};
MESSAGE(CHANGE);
FIELD WATCH_RESPONSE_FIELDS[] = {
    {F(1, MESSAGE, "start"), .message = &EMPTY, .oneof = 1},
    {F(2, MESSAGE, "filesystem"), .message = &CHANGE, .oneof = 1},
    {F(3, MESSAGE, "keepalive"), .message = &EMPTY, .oneof = 1},
};
MESSAGE(WATCH_RESPONSE);
FIELD WATCHER_FIELDS[] = {{F(1, STRING, "watcherId"), .original = "watcher_id"}};
MESSAGE(WATCHER);
FIELD CHANGES_FIELDS[] = {{F(1, MESSAGE, "events"), .message = &CHANGE, .repeated = true}};
MESSAGE(CHANGES);

// ---- the methods

#define PROCESS "/process.Process/"
#define FILES   "/filesystem.Filesystem/"

static const struct service_method METHODS[] = {
    {PROCESS "Start", SERVICE_SERVER_STREAM, &START_REQUEST, &EVENT_RESPONSE},
    {PROCESS "Connect", SERVICE_SERVER_STREAM, &SELECT, &EVENT_RESPONSE},
    {PROCESS "List", SERVICE_UNARY, &EMPTY, &LIST},
    {PROCESS "Update", SERVICE_UNARY, &UPDATE, &EMPTY},
    {PROCESS "SendInput", SERVICE_UNARY, &SEND_INPUT, &EMPTY},
    {PROCESS "StreamInput", SERVICE_CLIENT_STREAM, &STREAM_INPUT, &EMPTY},
    {PROCESS "SendSignal", SERVICE_UNARY, &SEND_SIGNAL, &EMPTY},
    {PROCESS "CloseStdin", SERVICE_UNARY, &SELECT, &EMPTY},
    {FILES "Stat", SERVICE_UNARY, &PATH, &ENTRY_RESPONSE},
    {FILES "MakeDir", SERVICE_UNARY, &PATH, &ENTRY_RESPONSE},
    {FILES "Move", SERVICE_UNARY, &MOVE, &ENTRY_RESPONSE},
    {FILES "ListDir", SERVICE_UNARY, &LIST_DIR, &ENTRIES},
    {FILES "Remove", SERVICE_UNARY, &PATH, &EMPTY},
    {FILES "WatchDir", SERVICE_SERVER_STREAM, &WATCH, &WATCH_RESPONSE},
    {FILES "CreateWatcher", SERVICE_UNARY, &WATCH, &WATCHER},
    {FILES "GetWatcherEvents", SERVICE_UNARY, &WATCHER, &CHANGES},
    {FILES "RemoveWatcher", SERVICE_UNARY, &WATCHER, &EMPTY},
};

const struct service_method *service_method(const char *path)
{
    for (size_t i = 0; i < ARRAY_LEN(METHODS); i++)
        if (strcmp(METHODS[i].path, path) == 0)
            return &METHODS[i];
    return NULL;
}
