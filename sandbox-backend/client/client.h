// SPDX-License-Identifier: Apache-2.0
// The client library: sandboxes through E2B's control plane (create, list, kill, timeout) and envd
// (commands, files). The same client uses cubbyd, a CubeSandbox cluster and E2B's cloud.
//
// Every operation completes exactly once, from the loop, never inside the function that started it.
// A request that the server may have carried out is not sent again. A request that the server
// refused for the moment (429 with Retry-After, 409 while a sandbox changes its state) is sent
// again a few times. `e` is NULL on success.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "sandbox-backend/base/err.h"

struct client;
struct client_op; // an operation in progress; freed once its completion has been called

struct client_opts {
    const char *api_url;     // "https://api.e2b.app"; NULL: the local daemon on its unix socket
    const char *api_key;     // X-API-KEY; NULL for none
    const char *sandbox_url; // one address for all sandboxes, routed by header; NULL: by domain
    const char *domain;      // of the host names of sandboxes, where the server names none
    const char *dialect;     // "cubbyd", "e2b" or "cube"; NULL: ask the server
    // Connect to this proxy for the host names of sandboxes: "http://10.0.0.5:8081". NULL: connect
    // to the addresses in DNS, with https.
    const char *proxy_url;
    const char *cube_master; // CubeMaster's URL, to reach sandboxes by address; NULL: by name
    const char *user;    // envd's user where an operation names none; NULL: the dialect's default
    const char *ca_file; // PEM; authorities trusted in addition to the system's
    const char *network; // default policy of created sandboxes: a mode or a file (network_spec);
                         // NULL: the server's default
    const char *home;    // CUBBY_HOME, for the local daemon
    const char *daemon_path; // the cubbyd program, started when nothing listens; NULL: never start
};

// Check the options. ERR_INVALID names the invalid option and its form.
int client_opts_check(const struct client_opts *opts, struct err *e);
// Make a client from options that client_opts_check has accepted. All are copied.
struct client *client_new(uv_loop_t *loop, const struct client_opts *opts);
void client_close(struct client *c, void (*on_closed)(void *ctx), void *ctx);

// Return true if the local daemon runs, or if the server is remote. False: the first operation
// would start the local daemon. The function tries to connect, without waiting.
bool client_is_there(const struct client *c);

// Return true if the server moves the end time of a sandbox created as `sliding` with each use.
// False also before the first operation, while the server's dialect is unknown.
bool client_slides(const struct client *c);

// End an operation: its completion is called with ERR_CANCELED. A running command is killed.
void client_cancel(struct client_op *op);

// ---- control plane. Sandboxes are named by id. The client looks up and caches their tokens.
struct sandbox_opts {
    const char *template; // NULL is "default"
    int64_t timeout_s;    // time to live
    json_t *metadata;     // object of strings, or NULL. Borrowed for the call
    json_t *envs;         // object of strings, or NULL. Borrowed for the call
    json_t *secrets;      // array of names, or NULL; cubbyd only. Borrowed for the call
    bool no_internet;     // overrides `network`
    json_t *network;      // policy (network_spec), or NULL. Borrowed for the call
    bool no_wider;        // refuse a policy that is wider than the snapshot's; cubbyd only
    bool sliding;         // each use restarts timeout_s; ignored where client_slides is false
    int64_t cpus;         // 0: as many as the template has; the same for memory and disk
    int64_t memory_mb, disk_mb;
    json_t *volumes;  // array of {"name", "path"}, or NULL; cubbyd only. Borrowed for the call
    const char *tier; // what it runs in; NULL: what the daemon's operator has chosen
};
// `info` is E2B's JSON (Sandbox, SandboxDetail, array of ListedSandbox), borrowed for the call.
typedef void (*client_json_cb)(const json_t *info, const struct err *e, void *ctx);
typedef void (*client_done_cb)(const struct err *e, void *ctx);

struct client_op *client_create(struct client *c, const struct sandbox_opts *opts,
                                client_json_cb cb, void *ctx);
// List the sandboxes that have all of `metadata`, an object of strings, borrowed for the call;
// NULL: all sandboxes. At most the newest CLIENT_LIST_MAX, fetched page by page.
#define CLIENT_LIST_MAX 10000
struct client_op *client_list(struct client *c, const json_t *metadata, client_json_cb cb,
                              void *ctx);
// ERR_NOT_FOUND: no such sandbox. ERR_GONE: it has ended; the message says why and when.
struct client_op *client_get(struct client *c, const char *id, client_json_cb cb, void *ctx);
struct client_op *client_kill(struct client *c, const char *id, client_done_cb cb, void *ctx);
// Set the time to live. CubeSandbox does not end a sandbox at its end time, so the client library
// ends the sandbox then, if this program still runs.
struct client_op *client_set_timeout(struct client *c, const char *id, int64_t seconds,
                                     client_done_cb cb, void *ctx);

// Pause a sandbox; its memory and processes are kept. ERR_CONFLICT: it is paused already, or
// changes its state. The depth, in memory or on the disk, is for cubbyd; other servers ignore it.
enum pause_depth { PAUSE_FREEZE, PAUSE_HIBERNATE };
struct client_op *client_pause(struct client *c, const char *id, enum pause_depth depth,
                               client_done_cb cb, void *ctx);
// Let a paused sandbox run again. It lives at least `seconds` from now, even if it ran already.
struct client_op *client_resume(struct client *c, const char *id, int64_t seconds,
                                client_json_cb cb, void *ctx);

// ---- snapshots and forks. ERR_UNIMPLEMENTED, with what to do instead, where the server has none.
// ERR_CONFLICT: the sandbox is paused, or changes its state. After client_cancel, the client
// removes what the server made, because no caller would know its id.
#define CLIENT_FORKS_MAX 100
struct fork_opts {
    int64_t timeout_s; // the children's time to live
    int64_t count;     // of children, at most CLIENT_FORKS_MAX
    // Which mounts the children keep: "same", "volumes" or "none". Only cubbyd knows it. NULL: the
    // caller's default.
    const char *mounts;
};
// Make a snapshot. `info` is E2B's SnapshotInfo: {"snapshotID", "names"}; client_create takes the
// id as a template. `name` may be NULL.
struct client_op *client_snapshot(struct client *c, const char *id, const char *name,
                                  client_json_cb cb, void *ctx);
// List the snapshots of the sandbox `id`, or all when it is NULL. `info` is an array of
// SnapshotInfo.
struct client_op *client_snapshots(struct client *c, const char *id, client_json_cb cb, void *ctx);
// Return whether `wanted` names the snapshot `info`, by its id or a name, with a tag (":default")
// or without.
bool client_snapshot_is(const json_t *info, const char *wanted);
// Delete a snapshot. The client first checks that the name is in the list of snapshots, so that it
// never deletes a template of that name.
// ERR_CONFLICT: it is in use, and by what. ERR_NOT_FOUND: there is no such snapshot.
struct client_op *client_snapshot_delete(struct client *c, const char *snapshot, client_done_cb cb,
                                         void *ctx);
// `info` is an array with an element for each child: {"sandbox": Sandbox} or {"error": {"code",
// "message"}}.
struct client_op *client_fork(struct client *c, const char *id, const struct fork_opts *opts,
                              client_json_cb cb, void *ctx);
// Return a sandbox to the memory, processes and files of a snapshot. Later changes are lost; its id
// and its end time stay.
struct client_op *client_rollback(struct client *c, const char *id, const char *snapshot,
                                  client_json_cb cb, void *ctx);

// List the templates: E2B's JSON, an array with "templateID", "names", "cpuCount", "memoryMB" and
// "diskSizeMB" of each.
struct client_op *client_templates(struct client *c, client_json_cb cb, void *ctx);
// Look up a template, or for cubbyd a snapshot, by its name or id: E2B's TemplateWithBuilds, with
// "cpuCount" and "memoryMB" in each of "builds". ERR_NOT_FOUND: there is none.
struct client_op *client_template(struct client *c, const char *name, client_json_cb cb, void *ctx);

// ---- building a template by E2B's template builder (build.c)
struct build_opts {
    const char *name;
    int64_t cpus, memory_mb; // 0: those of the base
    // The body of E2B's POST /v2/templates/{}/builds/{}: {"fromTemplate" or "fromImage", "steps",
    // "startCmd", "readyCmd"}. Borrowed for the call.
    const json_t *steps;
    // A tag that the build gets beside "default". A template that exists is only built again if it
    // has this tag; otherwise the operation ends with ERR_CONFLICT. NULL: any name may be built.
    const char *mark;
};
struct build_events {
    // An entry of the build's log. `step` is E2B's: "base", the number of a step, or "finalize";
    // NULL if the server names none. May be NULL.
    void (*on_entry)(const char *step, const char *message, void *ctx);
    // Exactly once, last. `e` is NULL if the build has ended by itself; `info` then has
    // "templateID", "buildID", "status" ("ready" or "error") and, after a failure, "reason"
    // ({"message", "step"}). It is borrowed for the call.
    void (*on_end)(const json_t *info, const struct err *e, void *ctx);
};
// Build a template, and follow the build to its end. client_cancel also ends the build, where the
// server can do that: cubbyd can, E2B's cloud cannot.
struct client_op *client_build(struct client *c, const struct build_opts *opts,
                               const struct build_events *events, void *ctx);

// ---- host usage: what the sandboxes use of their host, and what is left of it. cubbyd only.
// {"host": {...}, "sandboxes": [...]}, for the sandbox `id`, or all when it is NULL.
struct client_op *client_stats(struct client *c, const char *id, client_json_cb cb, void *ctx);

// The log of a sandbox: {"logs": [{"timestamp", "level", "message", "fields"}, ...]}, at most
// CLIENT_LOGS_MAX entries. With `from_ms`, a Unix time in milliseconds, they begin with the oldest
// at or after it; with -1 they are the newest, and the newest comes first. `level`: the least
// ("debug", "info", "warn" or "error").
#define CLIENT_LOGS_MAX 1000
struct client_op *client_logs(struct client *c, const char *id, int64_t from_ms, const char *level,
                              client_json_cb cb, void *ctx);

// The events of the sandbox `id`, or of all when it is NULL, in the last days: an array of
// {"id", "type", "sandboxId", "sandboxTemplateId", "timestamp", ...}, the newest first, at most
// CLIENT_EVENTS_MAX after the newest `offset`.
#define CLIENT_EVENTS_MAX 100
struct client_op *client_events(struct client *c, const char *id, int64_t offset, client_json_cb cb,
                                void *ctx);

// ---- envd: commands
struct command_opts {
    const char *cmd;         // program
    const char *const *args; // NULL-terminated, without the program; may be NULL
    json_t *envs;            // object of strings, or NULL. Borrowed for the call
    const char *cwd;         // NULL: the user's home
    const char *user;        // NULL: the sandbox's default
    int64_t timeout_ms;      // time after which envd kills the command; 0: no limit
    int64_t leave_ms;        // time after which the client kills the command as timed out, unless
                             // client_leave was called before; 0: no limit
    bool open_stdin;         // stdin stays open, for SendInput and CloseStdin by client_rpc
    const char *tag;         // a name by which envd finds the process; NULL: none
    int columns, rows;       // of a terminal that the command has instead of pipes; 0: no terminal.
                             // Its output is given to on_stdout; process.Process/Update resizes it
    bool joins;              // follow the running process that has `tag`; start nothing.
                             // ERR_NOT_FOUND: there is none
};
enum command_end {
    COMMAND_EXITED,
    COMMAND_SIGNALED,
    COMMAND_TIMED_OUT,
    COMMAND_LEFT,
    COMMAND_FAILED
};
struct command_result {
    enum command_end end;
    int exit_code;      // COMMAND_EXITED
    const char *status; // "exit status 3", "signal: killed"
    const char *error;  // NULL for exit 0
    bool may_have_run;  // COMMAND_FAILED: the command may have started; how it ended is unknown
};
struct command_events {
    void (*on_start)(int64_t pid, void *ctx); // may be NULL
    void (*on_stdout)(const char *data, size_t len, void *ctx);
    void (*on_stderr)(const char *data, size_t len, void *ctx);
    // At most once: the command runs, but a proxy on the way holds its output back until much of it
    // is there or the command has ended. The caller may leave it, and read its output otherwise.
    // May be NULL.
    void (*on_held)(void *ctx);
    // Last. `e` is set with COMMAND_FAILED: the command's fate is unknown, or it could not start.
    // ERR_GONE: the sandbox ended. ERR_CONFLICT: the sandbox is paused, and nothing ran. A timeout
    // is COMMAND_TIMED_OUT with e NULL.
    void (*on_end)(const struct command_result *r, const struct err *e, void *ctx);
};
struct client_op *client_command(struct client *c, const char *id, const struct command_opts *opts,
                                 const struct command_events *events, void *ctx);

// Stop following a command that has started. The command still runs, and envd discards its later
// output. on_end comes with COMMAND_LEFT, or, if the command has ended already, with its end.
void client_leave(struct client_op *op);

// ---- envd: files. Streamed: memory use does not grow with the file.
typedef void (*client_file_cb)(const char *path, int64_t bytes, const struct err *e, void *ctx);
// Upload a local descriptor (a regular file, taken) to `path` in the sandbox.
struct client_op *client_upload(struct client *c, const char *id, int fd, const char *path,
                                const char *user, client_file_cb cb, void *ctx);
// Upload bytes (copied).
struct client_op *client_upload_bytes(struct client *c, const char *id, const void *data,
                                      size_t len, const char *path, const char *user,
                                      client_file_cb cb, void *ctx);
// Download `path` to a local descriptor (taken).
struct client_op *client_download(struct client *c, const char *id, const char *path, int fd,
                                  int64_t max_bytes, const char *user, client_file_cb cb,
                                  void *ctx);
// Read `path` into memory. `data` is NUL-terminated and borrowed for the call; NULL with an error.
// ERR_NOT_FOUND; ERR_INVALID for a directory; ERR_TOO_LARGE for more than max_bytes, without
// reading the rest.
typedef void (*client_read_cb)(const char *data, size_t len, const struct err *e, void *ctx);
struct client_op *client_read(struct client *c, const char *id, const char *path, int64_t max_bytes,
                              const char *user, client_read_cb cb, void *ctx);

// Lines of a sandbox's record with numbers above `after`, each with its newline; "" when there are
// no more. cubbyd only; also of a sandbox that has ended.
struct client_op *client_record(struct client *c, const char *id, int64_t after, client_read_cb cb,
                                void *ctx);

// ---- envd: watching a directory
enum watch_kind { WATCH_CREATE, WATCH_WRITE, WATCH_REMOVE, WATCH_RENAME, WATCH_CHMOD };
struct watch_events {
    // The watch is armed: later changes are reported. May be NULL.
    void (*on_start)(void *ctx);
    // `name` is relative to the watched directory, which itself is "."; borrowed for the call. It
    // comes from the guest and may be any text. A rename reports the old name, then a create the
    // new.
    void (*on_event)(enum watch_kind kind, const char *name, void *ctx);
    // Exactly once, last. `e` is never NULL, because a watch does not end by itself. ERR_CANCELED:
    // client_cancel. ERR_NOT_FOUND, or ERR_INVALID for a file: refused. ERR_LIMIT: too much is
    // watched, or events were lost. ERR_GONE: the sandbox ended; the message says why.
    // ERR_UNAVAILABLE: the stream broke.
    void (*on_end)(const struct err *e, void *ctx);
};
// Watch `path`, and if `recursive` all directories below it, also those created later. An open
// watch does not keep a sliding sandbox alive.
struct client_op *client_watch(struct client *c, const char *id, const char *path, bool recursive,
                               const char *user, const struct watch_events *events, void *ctx);

// ---- a server in the sandbox that answers in lines: the Python kernel (port 49999)
#define CLIENT_LINE_BYTES_MAX (16 << 20) // a longer line ends the stream with ERR_TOO_LARGE
struct stream_events {
    // A line without its line end, or the text after the last line end; NUL-terminated, borrowed
    // for the call. Empty lines are skipped.
    void (*on_line)(const char *line, size_t len, void *ctx);
    // At most once: the server is there, but a proxy on the way holds its answer back until much of
    // it is there or it has ended. May be NULL.
    void (*on_held)(void *ctx);
    // Called exactly once, last. `e` is NULL if the whole answer came with a status below 300.
    // `status` is the HTTP status, or 0 if no answer came; from 300 on, `e` has the server's
    // message. ERR_REFUSED: the sandbox runs, but nothing listens on that port, so nothing was
    // done. ERR_UNAVAILABLE: the backend itself refuses connections, or the stream broke. ERR_GONE:
    // the sandbox ended; the message says why.
    void (*on_end)(int status, const struct err *e, void *ctx);
};
// `method` is a literal, `path` an encoded path with its query, `body` JSON or NULL, borrowed for
// the call. Canceling closes the connection, and the Python kernel then interrupts what it runs. A
// stream that is silent for two minutes counts as broken; there is no other time limit. The request
// is never sent twice.
struct client_op *client_stream(struct client *c, const char *id, int port, const char *method,
                                const char *path, const json_t *body,
                                const struct stream_events *events, void *ctx);

// ---- envd: everything else
// Make a unary call of envd: "filesystem.Filesystem/Stat", {"path":...}.
struct client_op *client_rpc(struct client *c, const char *id, const char *method,
                             const json_t *request, const char *user, client_json_cb cb, void *ctx);

// ---- exposed ports of a sandbox (ports.c)
//
// cubbyd opens a port of its host for each exposed port. On other servers every port of a sandbox
// always has a URL (the one of getHost in the SDKs), so nothing can be listed or closed.

#define EXPOSE_WAIT_MAX_S 300

struct expose_opts {
    int port;
    int host_port;  // 0: any. This and the next two: cubbyd only
    bool token;     // require an access token
    bool tcp;       // raw TCP instead of HTTP
    int64_t wait_s; // until something listens on the port; at most EXPOSE_WAIT_MAX_S; 0: no wait
};

// Expose a port: {"port", "hostPort", "protocol", "url", "browserUrl", "token"}. `url` is for
// programs; `browserUrl` has the access token in it, for a browser. "browserUrl" is null for TCP,
// "token" null or absent without a token, "hostPort" absent where no port of a host is used.
// ERR_TIMEOUT: nothing listened in time, and nothing is exposed. ERR_INVALID: the port cannot be
// exposed in this way. ERR_LIMIT: too many ports are exposed. ERR_CONFLICT: the port is exposed in
// another way, or the sandbox is paused. ERR_UNIMPLEMENTED: the server cannot do this.
struct client_op *client_expose(struct client *c, const char *id, const struct expose_opts *opts,
                                client_json_cb cb, void *ctx);
// List the exposed ports: an array.
struct client_op *client_ports(struct client *c, const char *id, client_json_cb cb, void *ctx);
// Close a port; 0: all of them. ERR_NOT_FOUND: the port is not exposed, or there is no such
// sandbox.
struct client_op *client_unexpose(struct client *c, const char *id, int port, client_done_cb cb,
                                  void *ctx);

// ---- directories of the server's host in a sandbox (mounts.c). cubbyd's unix socket only

struct mount_opts {
    const char *source; // absolute path on the server's host, without symbolic links
    const char *target; // absolute path in the sandbox
    bool read_only;
};
// Parse DIR:/path or DIR:/path:ro. *source is the directory without symbolic links on the way, as
// it is on this host; both paths are new strings. ERR_INVALID, ERR_NOT_FOUND.
int client_mount_parse(const char *spec, char **source, char **target, bool *read_only,
                       struct err *e);
// Return the directory of DIR or DIR:ro without symbolic links; new string, NULL: there is none.
char *client_mount_root(const char *spec, bool *read_only); // read_only: may be NULL
// Mount a directory, and return all mounts: an array of {"source", "target", "readOnly", "state"},
// and "hidden": the patterns of the files that are hidden by default. A volume has "volume", its
// name, instead of "source".
struct client_op *client_mount(struct client *c, const char *id, const struct mount_opts *opts,
                               client_json_cb cb, void *ctx);
struct client_op *client_mounts(struct client *c, const char *id, client_json_cb cb, void *ctx);
// ERR_NOT_FOUND: nothing is mounted there.
struct client_op *client_unmount(struct client *c, const char *id, const char *target,
                                 client_done_cb cb, void *ctx);

// ---- volumes (volumes.c): directories of files that the server keeps. cubbyd only

// A volume's id and the token that its files need. Borrowed.
struct volume_ref {
    const char *id, *token;
};
// List the caller's volumes, or on the unix socket those of all owners, who may use the same names:
// [{"volumeID", "name", "owner"}], without an owner for the caller's own.
struct client_op *client_volumes(struct client *c, client_json_cb cb, void *ctx);
// Get or make one: {"volumeID", "name", "token"}. ERR_NOT_FOUND, ERR_CONFLICT (the name is used).
struct client_op *client_volume(struct client *c, const char *id, client_json_cb cb, void *ctx);
struct client_op *client_volume_make(struct client *c, const char *name, client_json_cb cb,
                                     void *ctx);
// Remove a volume with its files. ERR_CONFLICT: it is mounted.
struct client_op *client_volume_remove(struct client *c, const char *id, client_done_cb cb,
                                       void *ctx);
// List a directory of a volume: an array of E2B's VolumeEntryStat, {"name", "path", "type", ...}.
struct client_op *client_volume_files(struct client *c, const struct volume_ref *v,
                                      const char *path, client_json_cb cb, void *ctx);
// Make a directory with those above; it may exist.
struct client_op *client_volume_make_dir(struct client *c, const struct volume_ref *v,
                                         const char *path, client_done_cb cb, void *ctx);
// Remove a file, or a directory with all in it.
struct client_op *client_volume_unlink(struct client *c, const struct volume_ref *v,
                                       const char *path, client_done_cb cb, void *ctx);
// As client_upload, which replaces a file, and client_download (files.c).
struct client_op *client_volume_upload(struct client *c, const struct volume_ref *v, int fd,
                                       const char *path, client_file_cb cb, void *ctx);
struct client_op *client_volume_download(struct client *c, const struct volume_ref *v,
                                         const char *path, int fd, int64_t max_bytes,
                                         client_file_cb cb, void *ctx);

// ---- the network of a sandbox: its policy, its counters and its refusals (network.c). cubbyd only

// GET /sandboxes/{id}/network?since=N:
//
//   {"policy":   {"mode": "none" | "public" | "allow", "allow": ["example.com:443", ...],
//                 "deny": ["10.0.0.0/8", ...], "denyWins": true, "limits": {...}},
//    "counters": {"receivedBytes", "receivedPackets", "sentBytes", "sentPackets", "refused",
//                 "refusedByReason": {"private": 3, ...}},
//    "sequence": 7,
//    "refusals": [{"sequence": 7, "count": 2, "timestamp": "2026-11-22T08:00:00Z",
//                  "protocol": "tcp" | "udp" | "icmp" | "other", "address": "10.0.0.1",
//                  "port": 5432, "name": "", "reason": "private"}, ...]}
//
// Refusals are numbered from 1; "sequence" is the number of the last one. "refusals" has those of
// the last 16 whose number is above `since`, the newest first. Refusals that differ only in their
// time are joined, with the number of the last one and their count. To learn what was refused while
// a command ran, ask before the command, then again with the first answer's "sequence" as `since`.
//   "name"     the name in DNS, TLS or HTTP; "" when only an address is known
//   "address"  "" when only a name is known, and for a frame that is not IPv4
//   "port"     0 for none
//   "reason"   a few words for a person, printable, at most 47 bytes; "secret NAME: ..." for a
//              refusal because of a secret
// "counters" is null, "sequence" 0 and "refusals" empty while the sandbox has no machine
// (hibernated). The request wakes nothing and does not count as use. `timeout_ms` is for the
// answer; 0: the default.
struct client_op *client_network(struct client *c, const char *id, int64_t since,
                                 uint64_t timeout_ms, client_json_cb cb, void *ctx);

// Replace the whole policy of a running sandbox: {"mode", "allow", "deny", "limits"}, or E2B's
// {"allowOut", "denyOut", "allow_internet_access"}. The policy is in force when the answer comes;
// connections that it denies are cut. `policy` is borrowed for the call. ERR_INVALID names the
// entry.
struct client_op *client_network_set(struct client *c, const char *id, const json_t *policy,
                                     client_done_cb cb, void *ctx);

// Make a policy as a person gives it on a command line. `what`: "none", "public", "allow", or a
// file with the policy in JSON ({"mode": "allow", "allow": [...], ...}); NULL: "allow" when `allow`
// has entries, else "public". `allow` and `deny` are lists of entries (net_rule.h), which are added
// to those of the file; borrowed, NULL for none. New reference, {"mode", "allow", "deny", ...};
// NULL in *out when nothing was given.
int network_spec(json_t **out, const char *what, const json_t *allow, const json_t *deny,
                 struct err *e);

// ---- a node of a fleet that is drained, at the local daemon's socket. `id` and `node` are valid.

// An API key is not in the keys file any more: let the daemon read the file, and remove the key's
// secrets, webhooks and events. It changes nothing in the file. `name` is valid. ERR_NOT_FOUND:
// there is nothing of it.
struct client_op *client_key_removed(struct client *c, const char *name, client_done_cb cb,
                                     void *ctx);
// Get {"node", "draining", "load", "room", ...}.
struct client_op *client_health(struct client *c, client_json_cb cb, void *ctx);
// Take no new sandboxes; and, unless `wakes`, wake none.
struct client_op *client_drain(struct client *c, bool wakes, client_done_cb cb, void *ctx);
// Begin to move a sandbox: it is hibernated. Gets {"ran", "again", "move"}: it ran; an earlier
// command began this; the name of the move. `cut`: "nothing", "streams" (of commands, files and
// upgraded connections) or "all". ERR_BUSY: it answers other requests.
struct client_op *client_move(struct client *c, const char *id, const char *node, const char *cut,
                              client_json_cb cb, void *ctx);
struct client_op *client_move_cancel(struct client *c, const char *id, client_done_cb cb,
                                     void *ctx);
struct client_op *client_moved(struct client *c, const char *id, client_done_cb cb, void *ctx);
struct client_arrival {
    const char *id, *move; // valid; `move` is of client_move
    const char *dir;       // of the home's cache; NULL: only ask
    bool wake;             // wake it at once
    bool bar;              // the move shall never bring the sandbox
};
// Take a sandbox that came, or ask for it. Gets {"arrival"}: "taken", "came" (by an earlier
// request) or "barred". ERR_NOT_FOUND: the move has not brought it. ERR_CONFLICT: the move was
// barred, or another copy of the sandbox is there.
struct client_op *client_arrive(struct client *c, const struct client_arrival *a, client_json_cb cb,
                                void *ctx);
