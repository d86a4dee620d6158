// SPDX-License-Identifier: Apache-2.0
// cubbyd: the sandboxes of one home, and the HTTP servers that serve them.
//
// Theory of operation. One libuv loop, and no threads but for blocking file work. A request is for
// a port of a sandbox and passed on to it (proxy/), or it is for the control plane (api/), where
// the API keys say who may ask (http/api_keys.h). The store owns the sandboxes (sandbox/store.h).
// sandbox/create.h makes one, sandbox/ending.h is the only way out, sleep/ pauses and wakes one,
// adopt/adopt.h finds those of an earlier daemon, and sandbox/store.h ends or pauses those whose
// time is over. A driver makes the machines (drivers/driver.h); nothing here knows what they are.
//
// Life: options, home, lock ; then the rooms are opened, earlier sandboxes are adopted,
// and the daemon listens and serves (daemon.c). It ends in one of two ways:
//  - END (SIGTERM, SIGINT, SIGHUP): stop listening, cut every connection, end every sandbox, and
//    leave neither a process nor a file of them.
//  - LEAVE (SIGUSR1, or the signals above with --keep): stop listening, and let go of the machines,
//    which run on. The next daemon adopts them, as it does after this one was killed with SIGKILL.
//    Nobody watches the end times in between; an overdue sandbox ends when it is adopted.
// A lock file makes sure that a home has one daemon.
#pragma once

// The program cubbyd, for the main() of the shipped daemon and that of the tests' daemon.
int daemon_main(int argc, char **argv);
