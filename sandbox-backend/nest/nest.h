// SPDX-License-Identifier: Apache-2.0
// cubby-nest: the process between the daemon and a guest that shares the host's kernel.
//
// Theory of operation
//
// Goal. A guest of the tiers "bubblewrap" and "none" consists of ordinary processes of the host.
// The daemon needs one process that stands for all of them: one that the daemon can watch, that
// ends when they end, and that ends all of them. cubby-nest is that process. It is the parent of
// the guest's first process and the reaper of all others (PR_SET_CHILD_SUBREAPER). SIGTERM ends the
// guest: cubby-nest kills all processes below it, waits until none is left, and exits. The guest's
// first process gets SIGKILL when cubby-nest ends in any other way.
//
//   cubby-nest bubblewrap   users, mounts and network card, then bwrap; frames or connections
//   cubby-nest none         envd on the host itself; connections
//   cubby-nest mount        a FUSE file system in a guest of bubblewrap (mounting.h)
//   cubby-nest unpack       a template's disk as a directory, with the guest's users
//
// bubblewrap, as a daemon of root starts it:
//
//   1. a lock on the template's directory, so that nobody removes it while the guest runs.
//   2. a network namespace with a TAP device (card.c). It belongs to the host's users, so the guest
//      has no rights over it.
//   3. a user namespace and a mount namespace (users.c): the guest's users are NEST_USERS_FIRST
//      and up of the host, which own no file but the unpacked template's.
//   4. an overlay of the template's directory and a tmpfs with a size (root.c).
//   5. a filter of system calls (filter.c). The guest can make no user namespaces.
//   6. cubby-nest waits for the guest's name on go_fd. The daemon sends it when the control groups
//      exist. An end of file cancels the start.
//   7. bwrap makes the other namespaces, takes away capabilities, and becomes the guest's init.
//
// If the daemon does not run as root, step 3 comes before step 2, and the guest's users are the
// daemon's user and those that /etc/subuid gives to it (newuidmap).
//
// Network. Either the frames of the TAP device are carried to cubby-netd's packet socket and back
// (frames.c), or there is no TAP device and no network, and cubby-nest itself serves vm.net: it
// connects to ports of its own network namespace (relay.c).
#pragma once

#define NEST_PROGRAM "cubby-nest"
#define NEST_SAYS    NEST_PROGRAM ": "

// The users of guests, for a daemon of root: 0x70000000 to 0x7000ffff. Users of jails are above
// (jail.h).
#define NEST_USERS_FIRST 0x70000000u
#define NEST_USERS_COUNT 65536u

// Paths and descriptors that bwrap's arguments may name. The mounts are in cubby-nest's mount
// namespace.
#define NEST_STAGE     "/tmp"
#define NEST_ROOT      "/tmp/root"  // the guest's root directory; below NEST_STAGE
#define NEST_TOOLS     "/tmp/tools" // init and envd
#define NEST_FD_FILTER 9            // the filter of system calls, for --seccomp

// The directories and files of a guest of NEST_KIND_NONE, in the sandbox's directory.
#define NEST_HOME_DIR  "home" // of its commands
#define NEST_STATE_DIR "run"  // envd's
#define NEST_ETC_DIR   "etc"  // passwd and group, for envd
#define NEST_TMP_DIR   "tmp"  // of its commands
