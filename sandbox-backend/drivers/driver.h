// SPDX-License-Identifier: Apache-2.0
// The interface between the daemon and the drivers, which make machines.
//
// Each machine runs envd, and has a socket that reaches the guest's ports. Code that uses this
// interface is the same for microVMs, containers and other kinds of machine. One daemon holds
// several drivers: DRIVERS lists them, and tier.h chooses the driver that runs a template. A
// machine carries its driver, so the functions at the end of this file reach that driver.
//
// docs/architecture.md, "Adding a driver", lists the steps.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/net_policy.h"
#include "sandbox-backend/base/net_stats.h"
#include "sandbox-backend/net/unix_stream.h"

// The size of a machine. In a machine_spec, 0 stands for the template's value.
struct machine_size {
    int cpus;
    int64_t memory_mb;
    int64_t disk_mb;
    bool booted; // the machine booted from an image of a disk alone (SAVE_DISK), so its memory is
                 // no copy of the template's, whatever its size is
};

// The cubby-egress of a machine.
struct machine_egress {
    // Its configuration as JSON (egress/egress.h). It holds secrets: the driver wipes it after use
    // and keeps it nowhere. NULL: the sandbox needs no cubby-egress.
    const char *config;
    bool hands; // it gets the guest's TLS and HTTP connections
    bool dials; // it makes the guest's connections to the outside, by an upstream proxy
};

struct machine_spec {
    const char *id;       // SANDBOX_ID_LEN of [a-z0-9]
    const char *dir;      // <home>/sandboxes/<id>, exists and is empty; the driver puts files in it
    const char *template; // directory of the template
    // A directory that machine_save filled from a machine of this template. The new machine goes on
    // from there, with the saved processes. NULL: the machine starts from the template. The
    // directory has to stay until on_ready. The driver only reads it, and several machines may
    // start from it at once.
    const char *image;
    struct machine_size size; // with an image: the size of the saved machine
    bool background;          // machine_set_background from the start
    // Where the driver notes, before on_ready, that it made the machine of a spare (host/spares.h).
    // If such a machine fails, the caller can make another one without. NULL: take no spare.
    bool *spare_taken;
    const struct net_policy *policy; // what the machine may open to the outside; NULL: nothing
    struct machine_egress egress;    // adoption ignores it: the running cubby-egress has it already
    const char *egress_trust; // file of certificate authorities for egress; NULL: the system's
    // Report an event of the machine for the sandbox's log, which the sandbox's user can read.
    // Called from the loop with the `ctx` of create or adopt, never after the machine's end. May be
    // NULL.
    void (*on_note)(const char *text, void *ctx);
};

// A running or starting machine. Its creator owns it. It is the first member of the driver's own
// struct.
struct machine {
    const struct driver *driver;
};

// Called when the machine has ended by itself: its program or its network process ended, or its
// guest kernel panicked. Called from the loop, once at most, and never after machine_kill. reason:
// one sentence.
typedef void (*machine_exit_cb)(struct machine *m, const char *reason, void *ctx);

// Called when the guest runs and its ports accept connections, or when the start has failed. After
// a success the caller sends /init to envd; the answer proves that the machine is usable. After a
// failure `m` is NULL, the driver has removed everything but `dir`, and on_exit is never called.
typedef void (*machine_ready_cb)(struct machine *m, const struct err *e, void *ctx);

// The answer to a request: `e` is NULL on success. Called exactly once, from the loop. If the
// machine ends meanwhile, this callback comes before on_exit, with ERR_UNAVAILABLE. If the machine
// is killed or released meanwhile, it comes before on_gone, with ERR_CANCELED. A machine serves its
// requests one after the other, in the order of the calls, and checks each when its turn comes.
typedef void (*machine_done_cb)(struct machine *m, const struct err *e, void *ctx);

// Facts about the template for the daemon and its API.
struct machine_facts {
    const struct driver *driver; // set by tier_facts
    int cpus;
    int64_t memory_mb;
    int64_t disk_mb;
    char accel[8];   // "kvm" or "tcg"; empty when the driver has none
    bool python;     // a Python kernel runs in the guest and is restarted when it ends
    bool disk_grows; // the template is not too old for a larger disk
    // Why `auto` chose this driver (tier.h), one sentence; empty when somebody named the driver.
    char reason[ERR_MSG_BYTES];
};

// The jail of a machine's processes (sandbox-backend/jail/).
struct driver_jail {
    bool off;              // no jail: for debugging
    bool required;         // all walls, or the driver does not open
    bool ends_with_daemon; // the host kernel kills them when this program ends, for any reason
    bool spares;           // start machines ahead (drivers/host/spares.h)
};

// The purpose of an image.
enum machine_save_use {
    SAVE_TO_KEEP,    // the image must survive a crash of the host: its files are synced
    SAVE_IN_PLACE,   // as SAVE_TO_KEEP, but the machine stays paused: the image will replace it
    SAVE_IN_PASSING, // machines are made from it now, then it is removed: nothing is synced
    // The disk alone (DRIVER_DISK_IMAGES). A machine that is made from it boots, and `size.booted`
    // of its machine_spec is set. The caller has let the guest write its file systems first.
    SAVE_DISK,          // otherwise as SAVE_TO_KEEP
    SAVE_DISK_IN_PLACE, // otherwise as SAVE_IN_PLACE
};

// The result of machine_save.
struct machine_saved {
    int64_t bytes;         // on the host's disk
    int64_t standstill_us; // how long the guest stood still; 0 if it was paused already
};
// As machine_done_cb; `saved` is NULL when `e` is not.
typedef void (*machine_saved_cb)(struct machine *m, const struct machine_saved *saved,
                                 const struct err *e, void *ctx);
typedef void (*machine_runs_cb)(struct machine *m, void *ctx);

// A machine's present use of the host. Its network processes count too.
struct machine_usage {
    int64_t memory_bytes; // its own memory; pages that it shares with other machines do not count
    int64_t cpu_ns;       // since it was started
    int64_t disk_bytes;   // taken up by its disk
    int64_t net_in_bytes, net_out_bytes; // as the guest sees it; 0 when the driver does not know
    bool disk_failed; // the host could not read or write its disk; its data may be lost
    bool disk_full;   // the guest waits until the host's disk has room (machine_stands)
};

// Counters of the network processes: bytes, and what they refused (net_stats.h). The daemon does
// not trust the numbers.
enum machine_net {
    MACHINE_NET_POLICY,  // all bytes, and what the policy refused
    MACHINE_NET_SECRETS, // what egress refused, for a sandbox with secrets
    MACHINE_NETS,
};

// The abilities of a driver. The daemon checks them before it promises something (driver_need).
enum driver_can {
    DRIVER_PAUSES = 1 << 0,      // machine_pause and machine_resume
    DRIVER_SAVES = 1 << 1,       // machine_save, image_check, and a machine_spec with an image
    DRIVER_POLICY = 1 << 2,      // machine_set_policy
    DRIVER_SIZES = 1 << 3,       // other processors and other memory than the template's
    DRIVER_SECRETS = 1 << 4,     // a machine_spec with `egress`
    DRIVER_RESIZES = 1 << 5,     // other processors and memory make a start no slower
    DRIVER_DISKS = 1 << 6,       // a larger disk than the template's, if disk_grows
    DRIVER_DISK_IMAGES = 1 << 7, // SAVE_DISK, and machines from such images
    DRIVER_MOUNTS = 1 << 8,      // guests show FUSE file systems (machine_mount)
};

// How well a driver runs a template on this host. The choice `auto` takes the highest (tier.h).
enum driver_rank {
    RANK_NONE,     // not at all
    RANK_EMULATED, // the processor is emulated
    RANK_SENTRY,   // the guest kernel is an ordinary process (gVisor's sentry)
    RANK_HARDWARE, // the processor itself separates the guest
};

// A finding of `cubby doctor`. name: what was checked, a literal. text: what was found. remedy:
// what to do, or NULL. All strings are borrowed.
enum finding_level {
    FINDING_OK,
    FINDING_NOTE,    // sandboxes work, but could work better
    FINDING_MISSING, // sandboxes do not work without it
};
typedef void (*finding_cb)(void *ctx, enum finding_level level, const char *name,
                           const char *remedy, const char *text);

// A FUSE file system in a guest, served by the program mountfs (guest/mountfs). All members are
// borrowed.
struct machine_mount {
    int port;           // mountfs listens there in the guest
    const char *target; // absolute path in the guest
    const char *user;   // the guest's user of commands
    const char *token;  // for mountfs, as hex digits
    bool read_only;
};
struct subproc; // drivers/host/subproc.h

// The operations of a machine. The functions at the end of this file define each of them.
struct machine_ops {
    json_t *(*record)(const struct machine *m);
    const char *(*vmnet)(const struct machine *m);
    void (*kill)(struct machine *m, void (*on_gone)(void *ctx), void *ctx);
    void (*abandon)(struct machine *m);
    void (*release)(struct machine *m, void (*on_gone)(void *ctx), void *ctx);
    void (*pause)(struct machine *m, machine_done_cb cb, void *ctx);  // DRIVER_PAUSES
    void (*resume)(struct machine *m, machine_done_cb cb, void *ctx); // DRIVER_PAUSES
    bool (*is_paused)(const struct machine *m);                       // DRIVER_PAUSES
    void (*set_policy)(struct machine *m, const struct net_policy *policy, machine_done_cb cb,
                       void *ctx); // DRIVER_POLICY
    void (*set_egress)(struct machine *m, const struct net_policy *policy,
                       const struct machine_egress *egress, machine_done_cb cb,
                       void *ctx); // DRIVER_POLICY and DRIVER_SECRETS
    void (*save)(struct machine *m, const char *dir, enum machine_save_use use,
                 machine_runs_cb on_runs, machine_saved_cb cb, void *ctx); // DRIVER_SAVES
    int (*stands)(const struct machine *m, struct err *e);                 // may be NULL
    int (*usage)(const struct machine *m, struct machine_usage *out, struct err *e);
    int (*network)(const struct machine *m, enum machine_net which, struct net_stats *out,
                   struct err *e);                              // may be NULL
    void (*set_background)(struct machine *m, bool background); // may be NULL
    void (*confine)(struct machine *m, pid_t pid);              // may be NULL
    struct subproc *(*mount)(struct machine *m, const struct machine_mount *what, int log,
                             void (*on_exit)(struct subproc *p, int status, void *ctx), void *ctx,
                             struct err *e); // may be NULL
};

// A file of an image. An archive with an image (template/move/) has these files, in this order.
struct driver_file {
    const char *name;
    int64_t max; // bytes
    bool optional;
};
#define DRIVER_FILES_MAX 8

struct driver {
    const char *name;        // "microvm", as template.json says it
    const char *isolation;   // start of the isolation label, before the accelerator: "microvm"
    const char *const *logs; // NULL-terminated: files in a sandbox's directory whose last lines
                             // tell why a machine ended
    const struct driver_file *image_files; // all that an image can have, ending with a name of
                                           // NULL. NULL: its images cannot go to another host
    unsigned can;                          // of enum driver_can
    bool fresh_entropy;    // random numbers of the guest's kernel are the host's: machines that are
                           // made from one image get different ones without being told
    bool must_be_allowed;  // its sandboxes share the host's kernel: only the operator's list
                           // (--tiers-allowed) offers it, also where --tier names it
    bool has_host_users;   // commands run as users of the host, not of the template
    bool disk_in_memory;   // what a guest writes to its disk is kept in the host's memory
    const char *no_mounts; // without DRIVER_MOUNTS: why, a clause; or NULL
    int64_t disk_mb;       // room that the host's disk must have for one more machine, in 10^6
                           // bytes (driver_check_disk); 0: a machine takes no room

    // Open the driver. Called once, before all functions below. home: the state directory.
    // ERR_PRECONDITION names walls that are required and missing. NULL: there is nothing to open.
    int (*open)(uv_loop_t *loop, const char *home, const struct driver_jail *jail, struct err *e);
    void (*close)(void); // its handles close with the loop's next turns. May be NULL
    // Return {"walls": [...], "missing": [...]} for the machine, or for one that would start now if
    // `m` is NULL. No walls: the machine has no jail. A driver whose guest runs behind other walls
    // than netd and egress adds "network": the same for those. New reference. NULL instead of the
    // function: the driver has no jail.
    json_t *(*jail)(const struct machine *m);

    // Return what a sandbox with this machine does not promise: one sentence, literal, that is part
    // of each answer about it. `m` is NULL for a sandbox without a machine. NULL: nothing is
    // missing.
    const char *(*warning)(const struct machine *m);

    // Load the template's facts. ERR_NOT_FOUND, with what to do, when the template is not there or
    // is not usable on this host (another QEMU, accelerator or machine type).
    int (*facts)(const char *template_dir, struct machine_facts *out, struct err *e);

    // Return how well this host runs the template, whose facts were loaded. Set `why` to one
    // sentence that says why the rank is not higher. May block for a moment, or for some seconds if
    // a part of the host hangs; the driver remembers slow results. If the function is NULL, `auto`
    // takes this driver only for a template whose template.json names it, and callers may ask for
    // the driver only if the operator allows it.
    enum driver_rank (*rank)(const char *template_dir, const struct machine_facts *facts,
                             struct err *why);

    // Return how much of the host's memory a machine with these facts may use at most, in MB. NULL:
    // the memory that its guest sees.
    int64_t (*promise_mb)(const struct machine_facts *facts);

    // Check that a machine can be held to this network policy. ERR_UNIMPLEMENTED says what the
    // caller can do. NULL: any policy holds, or the machine has no network.
    int (*policy_check)(const struct net_policy *policy, struct err *e);

    // Check that a machine of this template and size could start from the image in `dir`. The image
    // must exist, belong to this template, and be complete. Synchronous and quick: the contents are
    // checked when a machine is made from it. The error says what is wrong. DRIVER_SAVES.
    int (*image_check)(const char *dir, const char *template_dir, const struct machine_size *size,
                       struct err *e);

    // Start a machine and let it run. All of `spec` is copied. Until on_ready comes, the caller may
    // pass the returned machine to machine_abandon only.
    struct machine *(*create)(uv_loop_t *loop, const struct machine_spec *spec,
                              machine_ready_cb on_ready, machine_exit_cb on_exit, void *ctx);

    // Take over a running machine after a restart of the daemon. `spec` is as at creation, but with
    // the current policy, which the driver sets again. `record` is any result of machine_record for
    // this machine, not only the last. A paused machine stays paused (see machine_is_paused). Fails
    // with ERR_GONE when the machine no longer runs; the driver has then ended what is left of it.
    void (*adopt)(uv_loop_t *loop, const struct machine_spec *spec, const json_t *record,
                  machine_ready_cb on_ready, machine_exit_cb on_exit, void *ctx);

    // Remove what machines of an earlier daemon left outside of their directories: cgroups, for
    // example. sandboxes_dir: where the directories of these machines were. Called once, after the
    // daemon has adopted the machines that still run and has killed the rest. NULL: a machine
    // leaves nothing outside of its directory.
    void (*sweep)(const char *sandboxes_dir);

    // Return whether machines of this driver run `program` (a file name without its directory).
    // When a process uses the directory of a sandbox that has no record, the daemon ends it only if
    // it runs such a program or one of Cubby's own. NULL: machines run only Cubby's own programs.
    bool (*owns)(const char *program);

    // Report what this host lacks for this driver's machines. home: the state directory, or NULL.
    // Blocks, for some seconds at most. NULL: there is nothing to report.
    void (*doctor)(const char *home, finding_cb add, void *ctx);

    struct machine_ops machine;
};

// The drivers of this program, the default first. NULL-terminated. Defined in drivers/drivers.c; a
// program that defines its own table is linked with that one instead.
extern const struct driver *const DRIVERS[];

// ---- drivers (driver.c)

static inline bool save_is_disk(enum machine_save_use use)
{
    return use == SAVE_DISK || use == SAVE_DISK_IN_PLACE;
}
// Return whether a machine that ran stays paused after its saving.
static inline bool save_is_in_place(enum machine_save_use use)
{
    return use == SAVE_IN_PLACE || use == SAVE_DISK_IN_PLACE;
}

// Return the driver of this name, the default for NULL, or NULL for another name.
const struct driver *driver_find(const char *name);
// Return 0 if the driver is able to do `what`, else -1 with ERR_UNIMPLEMENTED, which names the
// driver and what it cannot do.
int driver_need(const struct driver *driver, enum driver_can what, struct err *e);

// As driver.promise_mb, of the facts' driver.
static inline int64_t driver_promise_mb(const struct machine_facts *facts)
{
    return facts->driver && facts->driver->promise_mb ? facts->driver->promise_mb(facts)
                                                      : facts->memory_mb;
}

// Return 0 if the disk of `dir` has room for one more machine of this driver. Otherwise return -1
// with ERR_NO_SPACE, which says how much is free and needed. `cubby doctor` checks the same.
int driver_check_disk(const struct driver *driver, const char *dir, struct err *e);

// Open each driver. On failure the caller still calls drivers_close.
int drivers_open(uv_loop_t *loop, const char *home, const struct driver_jail *jail, struct err *e);
void drivers_close(void);
void drivers_sweep(const char *sandboxes_dir); // driver.sweep of each
bool drivers_own(const char *program);         // driver.owns of any

// ---- machines

// Return what adopt needs, for the caller to keep in sandbox.json: processes, each an object with
// its "pid" and start time, and sockets. The daemon ends a process that uses the sandbox's
// directory unless it is in the record, or descends from a process in the record. New reference.
static inline json_t *machine_record(const struct machine *m)
{
    return m->driver->machine.record(m);
}

// Return the path of the vm.net socket: vmnet_connect(path, port) reaches a port of the guest.
// Borrowed.
static inline const char *machine_vmnet(const struct machine *m)
{
    return m->driver->machine.vmnet(m);
}

// End the machine at once, wait until its processes are gone, close what it holds, call on_gone and
// free it. Its processes get SIGKILL, but one that has to end others before itself gets SIGTERM,
// and SIGKILL after a time limit. The caller removes the directory.
static inline void machine_kill(struct machine *m, void (*on_gone)(void *ctx), void *ctx)
{
    m->driver->machine.kill(m, on_gone, ctx);
}

// Give up a machine that is being created. The loop calls on_ready with an error as soon as the
// machine's processes are gone: ERR_CANCELED, unless the creation had failed already.
static inline void machine_abandon(struct machine *m)
{
    m->driver->machine.abandon(m);
}

// Let go of the machine without ending it: the daemon stops, and machines go on. Its handles close
// with the loop's next turns, then on_gone is called.
static inline void machine_release(struct machine *m, void (*on_gone)(void *ctx), void *ctx)
{
    m->driver->machine.release(m, on_gone, ctx);
}

// Stop the guest at its present instruction, until machine_resume. Its memory and disk stay, and
// its clock stands still. Its connections stay open, and bytes that arrive for it wait; its peers
// may time out. ERR_CONFLICT: the machine is paused already. After any other failure the guest
// still runs, or on_exit follows.
static inline void machine_pause(struct machine *m, machine_done_cb cb, void *ctx)
{
    m->driver->machine.pause(m, cb, ctx);
}

// Let the guest run again. Its wall clock is late by the time of the pause, so the caller sends
// /init to envd. ERR_CONFLICT: the machine is not paused. After any other failure the machine is
// still paused, or on_exit follows.
static inline void machine_resume(struct machine *m, machine_done_cb cb, void *ctx)
{
    m->driver->machine.resume(m, cb, ctx);
}

// Return whether the machine is paused. False while a pause or a resume is under way.
static inline bool machine_is_paused(const struct machine *m)
{
    return m->driver->machine.is_paused && m->driver->machine.is_paused(m);
}

// Replace the policy (copied) of a running or paused machine. When `cb` comes, the new policy is in
// force for every packet, and connections that it denies are cut. No policy affects connections
// into the guest. On failure the old policy stays in force.
static inline void machine_set_policy(struct machine *m, const struct net_policy *policy,
                                      machine_done_cb cb, void *ctx)
{
    m->driver->machine.set_policy(m, policy, cb, ctx);
}

// Replace the policy and the cubby-egress (both copied). When `cb` comes, both are in force, and
// the guest's connections to the outside are cut, so that none goes on under the old configuration.
// On failure the old ones stay in force.
static inline void machine_set_egress(struct machine *m, const struct net_policy *policy,
                                      const struct machine_egress *egress, machine_done_cb cb,
                                      void *ctx)
{
    m->driver->machine.set_egress(m, policy, egress, cb, ctx);
}

// Write the whole state of a running or paused machine into `dir`. The directory exists, is empty,
// and is on the same file system as the machine's directory. The state has the devices, and the
// memory and disk clusters that differ from the template's, all at one instant. Unless `use` is
// SAVE_IN_PLACE, a running machine goes on as soon as its memory has been read, before the image is
// written. On failure `dir` is empty again and the machine is as it was, or on_exit follows.
// ERR_LIMIT: the host has no disk or memory left for the image.
// on_runs (may be NULL) is called when the guest, which stood still for the saving, runs again:
// once at most, and before `cb`. It must not end the machine.
static inline void machine_save(struct machine *m, const char *dir, enum machine_save_use use,
                                machine_runs_cb on_runs, machine_saved_cb cb, void *ctx)
{
    m->driver->machine.save(m, dir, use, on_runs, cb, ctx);
}

// Return -1 with ERR_NO_SPACE while a write of the guest waits because the host's disk is full. The
// guest does not run then. It is neither paused nor broken, and goes on by itself when the disk has
// room.
static inline int machine_stands(const struct machine *m, struct err *e)
{
    return m->driver->machine.stands ? m->driver->machine.stands(m, e) : 0;
}

// Measure what the machine uses. ERR_GONE when the machine has ended. Synchronous; reads some files
// under /proc.
static inline int machine_usage(const struct machine *m, struct machine_usage *out, struct err *e)
{
    return m->driver->machine.usage(m, out, e);
}

// Read the network counters. ERR_NOT_FOUND when the driver has none. Synchronous; reads one small
// file.
static inline int machine_network(const struct machine *m, enum machine_net which,
                                  struct net_stats *out, struct err *e)
{
    if (!m->driver->machine.network)
        return err_set(e, ERR_NOT_FOUND, "driver %s does not count network bytes", m->driver->name);
    return m->driver->machine.network(m, which, out, e);
}

// Put the machine into the background, or take it out. A machine in the background runs only on
// idle processors, if the host lets the daemon arrange that. Takes effect at once; failures are
// ignored.
static inline void machine_set_background(struct machine *m, bool background)
{
    if (m->driver->machine.set_background)
        m->driver->machine.set_background(m, background);
}

// Put a process of the host that works for this machine into the machine's control groups, if it
// has some. Takes tens of milliseconds on some kernels; failures are ignored.
static inline void machine_confine(struct machine *m, pid_t pid)
{
    if (m->driver->machine.confine)
        m->driver->machine.confine(m, pid);
}

// Return whether machine_mount mounts. Otherwise root of the guest starts mountfs, which mounts.
static inline bool machine_can_mount(const struct machine *m)
{
    return m->driver->machine.mount;
}

// Start a process that mounts at a path of the guest, for a driver whose guests may not mount.
// on_exit: the file system is mounted and served if the status is 0. Otherwise the last line in
// `log`, which is borrowed for this call, says why not, and nothing is mounted. The caller may kill
// the process, and closes it; then a mount that nobody serves may be left, which the next one
// replaces. NULL with `e`: it did not start. What serves the file system ends
// with the guest, and unmounts when it is told to end.
static inline struct subproc *machine_mount(
    struct machine *m, const struct machine_mount *what, int log,
    void (*on_exit)(struct subproc *p, int status, void *ctx), void *ctx, struct err *e)
{
    return m->driver->machine.mount(m, what, log, on_exit, ctx, e);
}

// Return what a template contains, for people and models that choose one, such as "bash, git,
// Python 3 (numpy, pandas)". The text comes from the package list in the template's directory, and
// names what people look for, not every package. New string; NULL: there is no such list.
char *driver_contents(const char *template_dir);
