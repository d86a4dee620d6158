// SPDX-License-Identifier: Apache-2.0
// A sandbox as its user sees it: E2B's control plane (create, list, kill, timeout) and envd
// (commands, files). The same client drives cubbyd, a CubeSandbox cluster and E2B's cloud.
//
// Every operation completes exactly once, from the loop, never inside the call that started it.
// Nothing is sent again after it may have been carried out: only what the server has refused in so
// many words (429 with Retry-After, 409 while a sandbox changes its state) is, a few times.
// `e` is NULL on success.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "sandbox-backend/base/err.h"

struct client;
struct client_op; // an operation in progress; gone once its completion was called

struct client_opts {
    const char *api_url;     // "https://api.e2b.app"; NULL: the local daemon on its unix socket
    const char *api_key;     // X-API-KEY; NULL for none
    const char *sandbox_url; // envd of every sandbox, routed by header; NULL: by their domain
    const char *domain;      // of sandboxes' names, where the server says none
    const char *dialect;     // "cubbyd", "e2b" or "cube"; NULL: found by asking the server
    // Where sandboxes' names lead, whatever DNS says: "http://10.0.0.5:8081". NULL: as DNS says,
    // by https.
    const char *proxy_url;
    const char *cube_master; // CubeMaster's URL, to reach sandboxes by address; NULL: by name
    const char *user;        // envd's, where an operation names none; NULL: as the dialect has it
    const char *ca_file;     // PEM; authorities trusted besides the system's
    const char *network;     // policy of each sandbox that is made and given none of its own: a
                             // mode or a file (network_spec.h). NULL: the server's default
    const char *home;        // CUBBY_HOME, for the local daemon
    const char *daemon_path; // the cubbyd program, started when nothing listens; NULL: never start
};

// ERR_INVALID: what of them cannot be used, and how it should look.
int client_opts_check(const struct client_opts *opts, struct err *e);
// Of options that were checked. All are copied.
struct client *client_new(uv_loop_t *loop, const struct client_opts *opts);
void client_close(struct client *c, void (*on_closed)(void *ctx), void *ctx);

// Whether an operation finds a server at once. False: the local daemon does not run, and the first
// operation would start it. Remote servers count as there. Does not wait.
bool client_is_there(const struct client *c);

// Whether the server itself keeps a sandbox that was created as `sliding` while it is used. False
// also while it is not known yet which server it is: before the first operation.
bool client_slides(const struct client *c);

// Ends an operation: its completion is called with ERR_CANCELED. A command that runs is killed.
void client_cancel(struct client_op *op);

// ---- control plane. Sandboxes are named by id; envd's token is looked up and cached inside.
struct sandbox_opts {
    const char *template; // NULL is "default"
    int64_t timeout_s;    // time to live
    json_t *metadata;     // object of strings, or NULL. Borrowed for the call
    json_t *envs;         // object of strings, or NULL. Borrowed for the call
    json_t *secrets;      // array of names, or NULL; only cubbyd has them. Borrowed for the call
    bool no_internet;     // whatever `network` says
    json_t *network;      // policy (client/network.h), or NULL. Borrowed for the call
    bool sliding; // each use starts timeout_s anew, where client_slides; elsewhere it is dropped
};
// `info` is E2B's JSON (Sandbox, SandboxDetail, array of ListedSandbox), borrowed for the call.
typedef void (*client_json_cb)(const json_t *info, const struct err *e, void *ctx);
typedef void (*client_done_cb)(const struct err *e, void *ctx);

struct client_op *client_create(struct client *c, const struct sandbox_opts *opts,
                                client_json_cb cb, void *ctx);
// `metadata`: object of strings, all of which must be a sandbox's own; NULL for every sandbox.
// Borrowed for the call. The newest CLIENT_LIST_MAX, page after page.
#define CLIENT_LIST_MAX 10000
struct client_op *client_list(struct client *c, const json_t *metadata, client_json_cb cb,
                              void *ctx);
// ERR_NOT_FOUND: no such sandbox. ERR_GONE: it has ended; the message says why and when.
struct client_op *client_get(struct client *c, const char *id, client_json_cb cb, void *ctx);
struct client_op *client_kill(struct client *c, const char *id, client_done_cb cb, void *ctx);
// CubeSandbox ends nothing by itself: there it is this client that does, and only while it lives.
struct client_op *client_set_timeout(struct client *c, const char *id, int64_t seconds,
                                     client_done_cb cb, void *ctx);

// Stops it where it is; its memory and processes are kept. ERR_CONFLICT: it is paused already, or
// on its way. The depth is cubbyd's: in memory, or on the disk; another server has its own way.
enum pause_depth { PAUSE_FREEZE, PAUSE_HIBERNATE };
struct client_op *client_pause(struct client *c, const char *id, enum pause_depth depth,
                               client_done_cb cb, void *ctx);
// Lets a paused one go on, and lives for at least so long from now on; one that runs, too.
struct client_op *client_resume(struct client *c, const char *id, int64_t seconds,
                                client_json_cb cb, void *ctx);

// ---- snapshots and forks. ERR_UNIMPLEMENTED, with what to do instead, where the server has none.
// ERR_CONFLICT: the sandbox is paused, or on its way. What was made for a caller that canceled is
// removed again: nobody would know its id.
#define CLIENT_FORKS_MAX 100
struct fork_opts {
    int64_t timeout_s; // the children's time to live
    int64_t count;     // of children, at most CLIENT_FORKS_MAX
};
// E2B's SnapshotInfo: {"snapshotID", "names"}. The id is a template's for client_create. `name` may
// be NULL.
struct client_op *client_snapshot(struct client *c, const char *id, const char *name,
                                  client_json_cb cb, void *ctx);
// Array of SnapshotInfo: those of the sandbox `id`, or all there are when it is NULL.
struct client_op *client_snapshots(struct client *c, const char *id, client_json_cb cb, void *ctx);
// Whether `info`, a SnapshotInfo, is what `wanted` names: its id or a name of it, with a tag behind
// it (":default") or without.
bool client_snapshot_is(const json_t *info, const char *wanted);
// It is looked up first: what is no snapshot, such as a template of that name, stays.
// ERR_CONFLICT: it is in use, and by whom. ERR_NOT_FOUND: there is no such snapshot.
struct client_op *client_snapshot_delete(struct client *c, const char *snapshot, client_done_cb cb,
                                         void *ctx);
// Array with an element for each child: {"sandbox": Sandbox} or {"error": {"code", "message"}}.
struct client_op *client_fork(struct client *c, const char *id, const struct fork_opts *opts,
                              client_json_cb cb, void *ctx);
// The sandbox is again what it was when the snapshot was made: memory, processes and files. What
// was done since is lost; its id and its end stay.
struct client_op *client_rollback(struct client *c, const char *id, const char *snapshot,
                                  client_json_cb cb, void *ctx);

// ---- figures: what the sandboxes use of their host, and what is left of that. cubbyd's alone.
// {"host": {...}, "sandboxes": [...]}, of the sandbox `id` or of all when it is NULL.
struct client_op *client_stats(struct client *c, const char *id, client_json_cb cb, void *ctx);

// ---- envd: commands
struct command_opts {
    const char *cmd;         // program
    const char *const *args; // NULL-terminated, without the program; may be NULL
    json_t *envs;            // object of strings, or NULL. Borrowed for the call
    const char *cwd;         // NULL: the user's home
    const char *user;        // NULL: the sandbox's default
    int64_t timeout_ms;      // 0 is none; past it envd kills the command
    bool open_stdin;         // its stdin stays open, for SendInput and CloseStdin by client_rpc
    const char *tag;         // a name by which envd finds the process; NULL for none
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
    bool may_have_run;  // COMMAND_FAILED: it began, or may have; its fate is not known
};
struct command_events {
    void (*on_start)(int64_t pid, void *ctx); // may be NULL
    void (*on_stdout)(const char *data, size_t len, void *ctx);
    void (*on_stderr)(const char *data, size_t len, void *ctx);
    // Last. e: the command's fate is unknown or it could not start (COMMAND_FAILED); ERR_GONE: the
    // sandbox died; ERR_CONFLICT: it is paused, and nothing ran; ERR_TIMEOUT comes as
    // COMMAND_TIMED_OUT with e NULL.
    void (*on_end)(const struct command_result *r, const struct err *e, void *ctx);
};
struct client_op *client_command(struct client *c, const char *id, const struct command_opts *opts,
                                 const struct command_events *events, void *ctx);

// Leaves a command that has started: it goes on, envd throws away what it writes from now on, and
// on_end comes with COMMAND_LEFT, or with how the command ended, if that is known by then.
void client_leave(struct client_op *op);

// ---- envd: files. Streamed: memory does not grow with the file.
typedef void (*client_file_cb)(const char *path, int64_t bytes, const struct err *e, void *ctx);
// Uploads from a local descriptor (regular file, taken) to `path` in the sandbox.
struct client_op *client_upload(struct client *c, const char *id, int fd, const char *path,
                                const char *user, client_file_cb cb, void *ctx);
// Uploads bytes (copied).
struct client_op *client_upload_bytes(struct client *c, const char *id, const void *data,
                                      size_t len, const char *path, const char *user,
                                      client_file_cb cb, void *ctx);
// Downloads `path` to a local descriptor (taken).
struct client_op *client_download(struct client *c, const char *id, const char *path, int fd,
                                  int64_t max_bytes, const char *user, client_file_cb cb,
                                  void *ctx);
// Reads `path` into memory. `data` is NUL-terminated and borrowed for the call; NULL with an error.
// ERR_NOT_FOUND; ERR_INVALID for a directory; ERR_TOO_LARGE for more than max_bytes, of which the
// rest is not asked for.
typedef void (*client_read_cb)(const char *data, size_t len, const struct err *e, void *ctx);
struct client_op *client_read(struct client *c, const char *id, const char *path, int64_t max_bytes,
                              const char *user, client_read_cb cb, void *ctx);

// ---- envd: watching a directory
enum watch_kind { WATCH_CREATE, WATCH_WRITE, WATCH_REMOVE, WATCH_RENAME, WATCH_CHMOD };
struct watch_events {
    void (*on_start)(
        void *ctx); // the watch is armed: what happens from now on is told. May be NULL
    // `name` is relative to the watched directory, which itself is "."; borrowed for the call. It
    // comes from the guest and may be any text. A rename tells the old name, and a create the new.
    void (*on_event)(enum watch_kind kind, const char *name, void *ctx);
    // Exactly once, last; `e` is never NULL, for a watch ends only because somebody ends it.
    // ERR_CANCELED; ERR_NOT_FOUND or ERR_INVALID (a file): refused; ERR_LIMIT: too much is watched,
    // or events were lost; ERR_GONE: the sandbox ended, and why; ERR_UNAVAILABLE: the stream broke.
    void (*on_end)(const struct err *e, void *ctx);
};
// Watches `path`; `recursive`: and all directories below it, those that are made later too. An open
// watch does not keep a sliding sandbox alive.
struct client_op *client_watch(struct client *c, const char *id, const char *path, bool recursive,
                               const char *user, const struct watch_events *events, void *ctx);

// ---- a server in the sandbox other than envd, whose answer is lines: the kernel's (port 49999)
#define CLIENT_LINE_BYTES_MAX (16 << 20) // a longer line ends the stream with ERR_TOO_LARGE
struct stream_events {
    // A line without its end, or what follows the last one; NUL-terminated, borrowed for the call.
    // Empty lines are left out.
    void (*on_line)(const char *line, size_t len, void *ctx);
    // Exactly once, last. e is NULL: a success that came whole. `status` is HTTP's, 0 when no
    // answer came; from 300 on, `e` has what the server said. ERR_UNAVAILABLE with e->sys
    // ECONNREFUSED: the sandbox runs, nothing listens at that port of it, and nothing was done. It
    // means only this: a backend that refuses connections is ERR_UNAVAILABLE with another e->sys.
    // ERR_GONE: the sandbox ended, and why.
    void (*on_end)(int status, const struct err *e, void *ctx);
};
// `method` is a literal, `path` an encoded path with its query, `body` JSON or NULL, borrowed for
// the call. Canceling closes the connection, at which the kernel interrupts what it runs. Nothing
// heard for two minutes is a broken stream; else there is no time limit. Never sent twice.
struct client_op *client_stream(struct client *c, const char *id, int port, const char *method,
                                const char *path, const json_t *body,
                                const struct stream_events *events, void *ctx);

// ---- envd: everything else
// Unary call of envd: "filesystem.Filesystem/Stat", {"path":...}.
struct client_op *client_rpc(struct client *c, const char *id, const char *method,
                             const json_t *request, const char *user, client_json_cb cb, void *ctx);
