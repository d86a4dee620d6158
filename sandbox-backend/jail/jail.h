// SPDX-License-Identifier: Apache-2.0
// The jail around one process, as the daemon describes it. The description becomes cubby-jail's
// command line.
//
// Theory of operation
//
// Goal. An attacker who breaks out of a guest into QEMU, or through a packet into a network
// process, must find nothing of use there: no file of another sandbox, no process to signal, no
// access to the network beyond what the process itself needs, no privilege. Each wall works without
// the others.
//
// The daemon starts cubby-jail in place of the program. cubby-jail is process 1 of a new process
// namespace, which the parent's clone(2) makes (with the first user namespace, when it is not
// root). It builds the walls and executes the program. So no process stays between the daemon and
// the program, and the pid that the daemon knows is the program's. cubby-jail builds exactly the
// walls that it is told to, or exits with 126 and one sentence; it leaves out nothing silently.
// `cubby-jail --probe` finds out beforehand which walls a host can build, and only those are asked
// for.
//
//   root daemon                              rootless daemon
//   clone: pid                               clone: user, pid; maps: 0 -> the daemon's user
//   unshare: mount, network, ipc, uts, cgroup (both)
//   root directory: tmpfs with read-only binds of what the process needs; the old root is detached
//   uid JAIL_UID_FIRST + pid, no groups      -
//     (JAIL_FILES: the directory's owner)
//   unshare: user, without rights over the namespaces above; maps: JAIL_UID_INSIDE
//   no_new_privs, no capabilities; limits; Landlock; parent-death signal; seccomp
//
// Like the pid, this uid is unique: two processes that live at the same time never have the same
// one. No file ever belongs to it.
#pragma once
#include <stdbool.h>

// ---- the walls by name: cubby-jail builds them, the daemon asks for them, and people read them

// A row for each wall: enum suffix, name, description (follows "without").
#define WALL_MAP(X)                                              \
    X(USER, "user", "a user namespace of its own")               \
    X(MOUNT, "mount", "a root directory of its own")             \
    X(PID, "pid", "a process namespace of its own")              \
    X(NETWORK, "network", "a network namespace of its own")      \
    X(IPC, "ipc", "an IPC namespace of its own")                 \
    X(UTS, "uts", "a UTS namespace of its own")                  \
    X(CGROUP, "cgroup", "a control group namespace of its own")  \
    X(UID, "uid", "a user of its own")                           \
    X(PRIVILEGES, "privileges", "the removal of its privileges") \
    X(RLIMITS, "rlimits", "limits of its own")                   \
    X(LANDLOCK, "landlock", "Landlock")                          \
    X(SECCOMP, "seccomp", "a filter of its system calls")

enum wall {
#define X(name, word, what) WALL_##name,
    WALL_MAP(X)
#undef X
        WALL_COUNT
};

#define WALL_BIT(wall) (1u << (wall))
#define WALLS_ALL      (WALL_BIT(WALL_COUNT) - 1)

const char *wall_name(enum wall wall);
const char *wall_what(enum wall wall);
int wall_of(const char *name); // -1: no such wall
// Parse "user,mount" into bits. False: a word names no wall.
bool walls_parse(const char *list, unsigned *out);
// Return the names of the set with `between` between two. New string.
char *walls_list(unsigned walls, const char *between);

#define JAIL_PROGRAM     "cubby-jail"
#define JAIL_EXIT_FAILED 126
#define JAIL_UID_FIRST   0x70c00000u // 1891631104 to 1895825407: above all users, below systemd's
#define JAIL_UID_LAST    0x70ffffffu // pids have 22 bits
#define JAIL_UID_INSIDE  1000
#define JAIL_BINDS_MAX   512

// Devices and files of the host that the process sees at their own paths, beside its files.
#define JAIL_DEVICES     "/dev/null", "/dev/zero", "/dev/urandom"
#define JAIL_KVM         "/dev/kvm"
#define JAIL_RESOLV_CONF "/etc/resolv.conf"

enum jail_kind {
    JAIL_VMM,     // no network; a list of forbidden system calls
    JAIL_NETWORK, // the host's network; a list of allowed system calls
    JAIL_FILES,   // no network; one directory of the host (cubby-mountd); a list of allowed calls
};

// Where a JAIL_FILES process with a root directory of its own would find its directory. It gets
// the directory as a descriptor, and this path is in no rule but the jail's.
#define JAIL_SHARE "/share"

struct jail_spec {
    enum jail_kind kind;
    unsigned walls;           // as bits; those that the kind does not have are left out
    const char *const *files; // NULL-terminated: in its root, read-only, at their own paths
    const char *resolv_conf;  // shown as /etc/resolv.conf, or NULL
    bool kvm;                 // it may open /dev/kvm
    const char *share;        // JAIL_FILES: the directory, or NULL
    int share_fd;             // descriptor in the child: the same directory, opened by the parent
    bool share_read_only;     // no write reaches the directory
    int dies_with;            // descriptor in the child: a pidfd of the parent, whose end kills the
                              // process; -1: none
    bool instrumented;        // the program is built with sanitizers, which need /proc and ptrace
};

// Return the arguments for execve(2) that start `program` in the jail. New array and strings.
char **jail_argv(const struct jail_spec *spec, const char *jail_program, const char *program,
                 char *const *argv);
void jail_argv_free(char **argv);
