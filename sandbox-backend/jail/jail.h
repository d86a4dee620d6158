// SPDX-License-Identifier: Apache-2.0
// A jail around one process, as the daemon asks for it: what becomes cubby-jail's command line.
//
// Theory of operation
//
// Goal. Whoever breaks out of a guest into its QEMU, or by a packet into its network process, is to
// find nothing there: no file of another sandbox, no process to signal, no way to the network that
// the process itself does not need, no privilege. Each wall stands without the others.
//
// cubby-jail is started in place of the program. It is process 1 of a new process namespace (the
// parent's clone(2) makes that one, and where it is not root the first user namespace), builds the
// walls and executes the program: no process stays between the daemon and the program, and the pid
// that the daemon knows is the program's. What it is told to build it builds, or it exits with 126
// and one sentence; nothing is left out silently. Which walls a host can build is found out
// beforehand (--probe), and only those are asked for.
//
//   root daemon                              rootless daemon
//   clone: pid                               clone: user, pid; maps: 0 -> the daemon's user
//   unshare: mount, network, ipc, uts, cgroup (both)
//   root directory: tmpfs with read-only binds of what the process needs; the old one is let go
//   uid JAIL_UID_FIRST + pid, no groups      -
//   unshare: user, without the rights over the namespaces above; maps: JAIL_UID_INSIDE
//   no_new_privs, no capability, none to be had; limits; Landlock; parent-death signal; seccomp
//
// The uid is as unique as the pid is: two processes that live at the same time never share one, and
// no file is ever owned by it.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/jail/walls.h"

#define JAIL_PROGRAM     "cubby-jail"
#define JAIL_EXIT_FAILED 126
#define JAIL_UID_FIRST   0x70c00000u // 1891631104 to 1895825407: beyond all users, below systemd's
#define JAIL_UID_LAST    0x70ffffffu // pids have 22 bits
#define JAIL_UID_INSIDE  1000
#define JAIL_BINDS_MAX   512

// What of the host each sees where it is, beside its files.
#define JAIL_DEVICES     "/dev/null", "/dev/zero", "/dev/urandom"
#define JAIL_KVM         "/dev/kvm"
#define JAIL_RESOLV_CONF "/etc/resolv.conf"

enum jail_kind {
    JAIL_VMM,     // no network; its own list of forbidden system calls
    JAIL_NETWORK, // the host's network; a list of allowed ones
};

struct jail_spec {
    enum jail_kind kind;
    unsigned walls;           // to be built, as bits; those that the kind has not are left out
    const char *const *files; // NULL-terminated: seen in its root, read-only, where they are
    const char *resolv_conf;  // what it sees as /etc/resolv.conf, or NULL
    bool kvm;                 // it may open /dev/kvm
    int dies_with;            // descriptor (of the child's) that is a pidfd of the parent: it is
                              // killed when that ends; -1: it goes on
    bool instrumented;        // the program is built with sanitizers, which need /proc and ptrace
};

// Of a kind: a network process has no network namespace of its own.
unsigned jail_walls_of(enum jail_kind kind);
// What execve(2) takes to start `program` in the jail with these arguments. New array and strings.
char **jail_argv(const struct jail_spec *spec, const char *jail_program, const char *program,
                 char *const *argv);
void jail_argv_free(char **argv);
