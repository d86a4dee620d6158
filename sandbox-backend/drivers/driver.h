// SPDX-License-Identifier: Apache-2.0
// A driver makes a place to run, with envd in it, and hands back a way to reach it. Nothing above
// a driver differs between microVM, container and other tiers.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/net_policy.h"
#include "sandbox-backend/base/net_stats.h"
#include "sandbox-backend/net/unix_stream.h"

// How large a machine is. In a machine_spec 0 stands for what the template has.
struct machine_size {
    int cpus;
    int64_t memory_mb;
    int64_t disk_mb;
};

struct machine_spec {
    const char *id;       // SANDBOX_ID_LEN of [a-z0-9]
    const char *dir;      // <home>/sandboxes/<id>, exists and is empty; the driver puts files in it
    const char *template; // directory of the template
    // A directory that machine_save filled, of a machine of this template: it goes on from there,
    // with its processes. NULL: from the template as it is. Has to stay until on_ready; is only
    // read, and several may start from it at once.
    const char *image;
    struct machine_size size;        // with an image: as the saved one had
    bool background;                 // machine_set_background from the start
    const struct net_policy *policy; // what it may open to the outside; NULL: nothing
    // JSON for cubby-egress (egress/egress.h), which holds secrets: wiped when it was used, kept
    // nowhere. NULL: it has none. Not for adopt, which finds a process that has been told.
    const char *egress;
    const char *egress_trust; // certificate authorities that it reads; NULL: the system's
};

struct machine; // one running (or starting) place. Owned by whoever created it

// The machine ended by itself: VMM gone, guest kernel panicked, network process gone. Called once
// at most, from the loop, and not once machine_kill was called. reason: one sentence.
typedef void (*machine_exit_cb)(struct machine *m, const char *reason, void *ctx);

// Ready: the guest runs and its ports can be connected to; the caller then posts envd's /init,
// whose answer is the proof that it is usable. On failure `m` is NULL, everything is already
// cleaned up except `dir`, and on_exit is never called.
typedef void (*machine_ready_cb)(struct machine *m, const struct err *e, void *ctx);

// Facts about the template that the store and the API show.
struct machine_facts {
    int cpus;
    int64_t memory_mb;
    int64_t disk_mb;
    char accel[8];   // "kvm" or "tcg"; empty when the driver has none
    bool python;     // a Python kernel runs in it, and is started again when it ends
    bool disk_grows; // a machine may have a larger disk
};

// What the processes of a machine are put behind (sandbox-backend/jail/).
struct driver_jail {
    bool off;              // nothing: for debugging
    bool required;         // all walls, or the driver does not open
    bool ends_with_daemon; // they are killed when this program ends, however it does
};

struct driver {
    const char *name;      // "microvm"
    const char *isolation; // label shown with each sandbox: "microvm (kvm)" is made from accel

    // To be called once, before all below: home is the daemon's. ERR_PRECONDITION names walls that
    // are required and missing. NULL, as the other two of the jail: it has none.
    int (*open)(uv_loop_t *loop, const char *home, const struct driver_jail *jail, struct err *e);
    void (*close)(void); // its handles close with the loop's next turns
    // {"walls": [...], "missing": [...]} of this machine; of one that would be started now when `m`
    // is NULL. No walls: it has no jail. New reference.
    json_t *(*jail)(const struct machine *m);

    // Loads the template's facts; ERR_NOT_FOUND with what to do when it is not there or is not
    // usable on this host (other QEMU, accelerator, machine).
    int (*facts)(const char *template_dir, struct machine_facts *out, struct err *e);

    // Whether a machine of this template and size could go on from what machine_save left in `dir`:
    // that it is there, of this template and not cut off. Synchronous and quick: contents are
    // looked at when a machine is made from it. The error says what is wrong.
    int (*image_check)(const char *dir, const char *template_dir, const struct machine_size *size,
                       struct err *e);

    // Restores a machine and lets it run. All of `spec` is copied. What is returned is for
    // machine_abandon alone, until on_ready comes.
    struct machine *(*create)(uv_loop_t *loop, const struct machine_spec *spec,
                              machine_ready_cb on_ready, machine_exit_cb on_exit, void *ctx);

    // Finds a machine again after the daemon was restarted: `spec` as at creation but with the
    // policy that it is to have now (which is set anew), `record` as machine_record gave it at any
    // time. A paused one stays paused: machine_is_paused. Fails with ERR_GONE when it no longer
    // runs (then whatever is left of it has been ended).
    void (*adopt)(uv_loop_t *loop, const struct machine_spec *spec, const json_t *record,
                  machine_ready_cb on_ready, machine_exit_cb on_exit, void *ctx);

    // Removes what machines whose directories are in this one left outside of them, now that those
    // that nobody adopted have been ended: a daemon may have been killed at any moment. NULL: a
    // machine has nothing outside of its directory.
    void (*sweep)(const char *sandboxes_dir);
};

extern const struct driver microvm_driver;

// What adopt needs, to be kept in sandbox.json: processes, each an object with its "pid" (whatever
// else belongs to the sandbox's directory and is not below one of them is nobody's) and start time,
// sockets. New reference.
json_t *machine_record(const struct machine *m);
// Path of the vm.net socket: vmnet_connect(path, port) reaches a port of the guest. Borrowed.
const char *machine_vmnet(const struct machine *m);
// Ends it at once (SIGKILL to VMM and network process), waits until they are gone, closes what it
// holds, calls, frees. The directory is the caller's to remove.
void machine_kill(struct machine *m, void (*on_gone)(void *ctx), void *ctx);
// Gives up one that is being created: on_ready comes with an error (ERR_CANCELED, unless it had
// failed already) from the loop, as soon as its processes are gone.
void machine_abandon(struct machine *m);
// Lets go of it without ending it (the daemon stops, machines go on). Synchronous to the caller;
// its handles close with the loop's next turns, then on_gone.
void machine_release(struct machine *m, void (*on_gone)(void *ctx), void *ctx);

// The answer to one of the requests below: e is NULL when it is done. Called exactly once, from the
// loop; when the machine ended meanwhile (ERR_UNAVAILABLE) before on_exit, when it was killed or
// released meanwhile (ERR_CANCELED) before on_gone. Requests are served one after the other, in the
// order in which they were made; what they ask for is checked when their turn comes.
typedef void (*machine_done_cb)(struct machine *m, const struct err *e, void *ctx);

// Stops the guest where it is: no instruction of it runs until machine_resume, its memory and disk
// stay, its clock stands still. Connections stay open and bytes for it wait; what waits long may
// time out at its peers. ERR_CONFLICT when it is paused already; on any other failure it goes on
// running, or on_exit follows.
void machine_pause(struct machine *m, machine_done_cb cb, void *ctx);
// Lets it go on. Its wall clock is behind by then: the caller posts envd's /init. ERR_CONFLICT
// when it is not paused; on any other failure it stays paused, or on_exit follows.
void machine_resume(struct machine *m, machine_done_cb cb, void *ctx);
bool machine_is_paused(const struct machine *m); // not while one of the two is under way

// Replaces the policy (copied) of a running or paused machine. Once done it holds for every packet,
// and connections to what it denies are cut. Connections into the guest are not touched by any
// policy. On failure the old one holds.
void machine_set_policy(struct machine *m, const struct net_policy *policy, machine_done_cb cb,
                        void *ctx);

// What an image is for.
enum machine_save_use {
    SAVE_TO_KEEP,    // it may outlive this host's next moment: its files are synced
    SAVE_IN_PLACE,   // the same, in the machine's place, which stays paused
    SAVE_IN_PASSING, // others are made from it now, then it is removed: nothing is synced
};

// What machine_save left.
struct machine_saved {
    int64_t bytes;         // on the host's disk
    int64_t standstill_us; // how long the guest stood still for it; of a paused one 0
};
// As machine_done_cb; `saved` is NULL when `e` is not.
typedef void (*machine_saved_cb)(struct machine *m, const struct machine_saved *saved,
                                 const struct err *e, void *ctx);

// Writes the whole state of a running or paused machine into `dir` (exists, empty, on the same file
// system as the machine's): devices, the memory that differs from the template's, the disk's
// clusters that do. All of it is of one instant. Unless saved in its place it is as it was before:
// running again as soon as its memory has been read, before it has been written. On failure `dir`
// is empty again and the machine as it was (ERR_LIMIT: the host has no disk or memory left for it);
// or on_exit follows.
// `on_runs` (may be NULL): the guest that stood still for it runs again; at most once, before `cb`.
// It does not end the machine.
void machine_save(struct machine *m, const char *dir, enum machine_save_use use,
                  void (*on_runs)(struct machine *m, void *ctx), machine_saved_cb cb, void *ctx);

// What it uses of the host, of this moment, together with its network process.
struct machine_usage {
    int64_t memory_bytes; // its own: what would be free without it. Shared template pages apart
    int64_t cpu_ns;       // since it was started
    int64_t disk_bytes;   // that its disk takes up
    int64_t net_in_bytes, net_out_bytes; // as the guest sees it; 0 when the driver does not know
    bool disk_failed; // the host could not read or write for its disk, so data of it may be lost
};
// ERR_GONE when it has ended. Synchronous; some file reads under /proc.
int machine_usage(const struct machine *m, struct machine_usage *out, struct err *e);

// What its network's processes tell: bytes, and what was refused (net_stats.h); they are distrusted
// there. ERR_NOT_FOUND when the driver does not know. Synchronous; reads one small file.
enum machine_net {
    MACHINE_NET_POLICY,  // all bytes, and what the policy refused
    MACHINE_NET_SECRETS, // what was refused for the sake of its secrets; of one that has some
    MACHINE_NETS,
};
int machine_network(const struct machine *m, enum machine_net which, struct net_stats *out,
                    struct err *e);

// In the background it runs only when nothing else wants the processor, as far as the host lets the
// daemon decide that; or again as others do. Best effort, at once.
void machine_set_background(struct machine *m, bool background);
