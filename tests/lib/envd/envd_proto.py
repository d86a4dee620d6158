# SPDX-License-Identifier: Apache-2.0
"""envd's two services for Google's Protocol Buffers and for the Connect project's own client,
neither of which shares code with our codec. The messages are those of E2B's process.proto and
filesystem.proto.
"""

import re

from connectrpc.client import ConnectClientSync
from connectrpc.compat import google_protobuf_binary_codec, google_protobuf_json_codec
from connectrpc.compression.gzip import GzipCompression
from connectrpc.method import IdempotencyLevel, MethodInfo, StreamType
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2  # noqa: F401
from pyqwest import SyncClient, SyncHTTPTransport

# message: fields "name=number type"; "?" optional, "*" repeated, "|" member of the message's oneof.
PROCESS = """
Size: cols=1 uint32, rows=2 uint32
PTY: size=1 Size
ProcessConfig: cmd=1 string, args=2 *string, envs=3 map, cwd=4 ?string
ProcessInfo: config=1 ProcessConfig, pid=2 uint32, tag=3 ?string
ListRequest:
ListResponse: processes=1 *ProcessInfo
StartRequest: process=1 ProcessConfig, pty=2 ?PTY, tag=3 ?string, stdin=4 ?bool
StartEvent: pid=1 uint32
DataEvent: stdout=1 |bytes, stderr=2 |bytes, pty=3 |bytes
EndEvent: exit_code=1 sint32, exited=2 bool, status=3 string, error=4 ?string
KeepAlive:
ProcessEvent: start=1 |StartEvent, data=2 |DataEvent, end=3 |EndEvent, keepalive=4 |KeepAlive
StartResponse: event=1 ProcessEvent
ConnectRequest: process=1 ProcessSelector
ConnectResponse: event=1 ProcessEvent
ProcessSelector: pid=1 |uint32, tag=2 |string
UpdateRequest: process=1 ProcessSelector, pty=2 ?PTY
UpdateResponse:
ProcessInput: stdin=1 |bytes, pty=2 |bytes
SendInputRequest: process=1 ProcessSelector, input=2 ProcessInput
SendInputResponse:
StreamStart: process=1 ProcessSelector
StreamData: input=2 ProcessInput
StreamInputRequest: start=1 |StreamStart, data=2 |StreamData, keepalive=3 |KeepAlive
StreamInputResponse:
SendSignalRequest: process=1 ProcessSelector, signal=2 Signal
SendSignalResponse:
CloseStdinRequest: process=1 ProcessSelector
CloseStdinResponse:
enum Signal: SIGNAL_UNSPECIFIED=0, SIGNAL_SIGTERM=15, SIGNAL_SIGKILL=9
"""
FILESYSTEM = """
EntryInfo: name=1 string, type=2 FileType, path=3 string, size=4 int64, mode=5 uint32, permissions=6 string,
 owner=7 string, group=8 string, modified_time=9 time, symlink_target=10 ?string, metadata=11 map
StatRequest: path=1 string
StatResponse: entry=1 EntryInfo
MakeDirRequest: path=1 string
MakeDirResponse: entry=1 EntryInfo
MoveRequest: source=1 string, destination=2 string
MoveResponse: entry=1 EntryInfo
ListDirRequest: path=1 string, depth=2 uint32
ListDirResponse: entries=1 *EntryInfo
RemoveRequest: path=1 string
RemoveResponse:
WatchDirRequest: path=1 string, recursive=2 bool, include_entry=3 bool, allow_network_mounts=4 bool
FilesystemEvent: name=1 string, type=2 EventType, entry=3 ?EntryInfo
Empty:
WatchDirResponse: start=1 |Empty, filesystem=2 |FilesystemEvent, keepalive=3 |Empty
CreateWatcherRequest: path=1 string, recursive=2 bool, include_entry=3 bool, allow_network_mounts=4 bool
CreateWatcherResponse: watcher_id=1 string
GetWatcherEventsRequest: watcher_id=1 string
GetWatcherEventsResponse: events=1 *FilesystemEvent
RemoveWatcherRequest: watcher_id=1 string
RemoveWatcherResponse:
enum FileType: FILE_TYPE_UNSPECIFIED=0, FILE_TYPE_FILE=1, FILE_TYPE_DIRECTORY=2, FILE_TYPE_SYMLINK=3
enum EventType: EVENT_TYPE_UNSPECIFIED=0, EVENT_TYPE_CREATE=1, EVENT_TYPE_WRITE=2, EVENT_TYPE_REMOVE=3,
 EVENT_TYPE_RENAME=4, EVENT_TYPE_CHMOD=5
"""
FIELD = descriptor_pb2.FieldDescriptorProto
SCALARS = {name: getattr(FIELD, "TYPE_" + name.upper())
           for name in ("string", "bytes", "bool", "uint32", "sint32", "int64")}


def _add_map(message, field, package):
    entry = message.nested_type.add(name=field.name.capitalize() + "Entry")
    entry.options.map_entry = True
    for number, name in ((1, "key"), (2, "value")):
        entry.field.add(name=name, number=number, type=FIELD.TYPE_STRING, label=FIELD.LABEL_OPTIONAL)
    field.type = FIELD.TYPE_MESSAGE
    field.label = FIELD.LABEL_REPEATED
    field.type_name = f".{package}.{message.name}.{entry.name}"


def _add_field(message, text, package, enums):
    name, number, mark, kind = re.fullmatch(r"(\w+)=(\d+) ([?*|]?)(\w+)", text).groups()
    field = message.field.add(name=name, number=int(number),
                              label=FIELD.LABEL_REPEATED if mark == "*" else FIELD.LABEL_OPTIONAL)
    if kind == "map":
        _add_map(message, field, package)
    elif kind in SCALARS:
        field.type = SCALARS[kind]
    else:
        field.type = FIELD.TYPE_ENUM if kind in enums else FIELD.TYPE_MESSAGE
        field.type_name = ".google.protobuf.Timestamp" if kind == "time" else f".{package}.{kind}"
    if mark == "|":
        if not message.oneof_decl:
            message.oneof_decl.add(name="one")
        field.oneof_index = 0
    elif mark == "?":
        field.oneof_index = len(message.oneof_decl)
        field.proto3_optional = True
        message.oneof_decl.add(name="_" + name)


def _messages(package, text):
    """The classes of a package's messages, by name."""
    lines = text.strip().replace("\n ", " ").splitlines()
    enums = [line.split()[1].rstrip(":") for line in lines if line.startswith("enum ")]
    file = descriptor_pb2.FileDescriptorProto(name=package + ".proto", package=package, syntax="proto3",
                                              dependency=["google/protobuf/timestamp.proto"])
    names = []
    for line in lines:
        head, _, body = line.partition(":")
        parts = [p.strip() for p in body.split(",") if p.strip()]
        if head.startswith("enum "):
            enum = file.enum_type.add(name=head.split()[1])
            for part in parts:
                value, number = part.split("=")
                enum.value.add(name=value, number=int(number))
            continue
        names.append(head)
        message = file.message_type.add(name=head)
        for part in parts:
            _add_field(message, part, package, enums)
    pool = descriptor_pool.Default()
    pool.Add(file)
    return {n: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{n}")) for n in names}


MESSAGES = _messages("process", PROCESS) | _messages("filesystem", FILESYSTEM)


class Peer:
    """The Connect project's client on an envd; `codec` is "proto" or "json"."""

    def __init__(self, envd, codec="proto", gzip=True):
        self.transport = SyncHTTPTransport()
        self.client = ConnectClientSync(
            f"http://127.0.0.1:{envd.port}",
            codec=google_protobuf_binary_codec() if codec == "proto" else google_protobuf_json_codec(),
            send_compression=GzipCompression() if gzip else None,
            http_client=SyncClient(transport=self.transport))

    @staticmethod
    def _method(name, kind):
        in_process = name in ("Start", "Connect", "List", "Update", "SendInput", "StreamInput", "SendSignal",
                              "CloseStdin")
        return MethodInfo(name=name, service_name="process.Process" if in_process else "filesystem.Filesystem",
                          input=MESSAGES[name + "Request"], output=MESSAGES[name + "Response"],
                          stream_type=kind, idempotency_level=IdempotencyLevel.UNKNOWN)

    def call(self, name, headers=None, timeout_ms=None, **fields):
        return self.client.execute_unary(request=MESSAGES[name + "Request"](**fields), headers=headers,
                                         timeout_ms=timeout_ms, method=self._method(name, StreamType.UNARY))

    def stream(self, name, headers=None, timeout_ms=None, **fields):
        return self.client.execute_server_stream(
            request=MESSAGES[name + "Request"](**fields), headers=headers, timeout_ms=timeout_ms,
            method=self._method(name, StreamType.SERVER_STREAM))

    def feed(self, messages, timeout_ms=None):
        """StreamInput with (field, value) pairs."""
        requests = (MESSAGES["StreamInputRequest"](**{k: v}) for k, v in messages)
        return self.client.execute_client_stream(request=requests, timeout_ms=timeout_ms,
                                                 method=self._method("StreamInput", StreamType.CLIENT_STREAM))

    def close(self):
        self.client.close()
