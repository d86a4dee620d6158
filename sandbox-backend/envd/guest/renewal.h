// SPDX-License-Identifier: Apache-2.0
// The renewal of a restored guest before its use: its entropy, its clock, the size of its disk, a
// certificate authority. (Its names are in names.h.) Only envd in a guest may do this, because each
// of these changes the whole machine.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"

// Mix bytes into the kernel's random number generator, count them as entropy, and reseed it, so
// that two guests of one snapshot draw different random numbers from here on.
int renewal_add_entropy(const void *bytes, size_t len, struct err *e);

// Set the wall clock if it is more than 50 ms behind or 5 s ahead of `wall_ns`. Succeed without it
// in a guest whose kernel shows the host's clock and refuses to set it.
int renewal_set_clock(int64_t wall_ns, struct err *e);

// Grow the root file system to a disk of `mb`, to which the host has grown the disk already. A file
// system that is large enough stays. Wait at most 2 s for the kernel to see the disk's new size.
// The file system stays in use.
int renewal_grow_disk(int64_t mb, struct err *e);

// Call once, at envd's start. Protect envd when memory runs out (the kernel kills a command first),
// and open the files that the other functions need, so that they look up no path: in an emulated
// guest, the first look-up after a restore takes as long as the rest of the renewal.
void renewal_prepare(void);

// ---- a certificate authority that the guest trusts besides those of its system (E2B's caBundle)
//
// cubby-egress, which puts secrets into requests, signs with it.

#define TRUST_BUNDLE      "/etc/ssl/certs/ca-certificates.crt"
#define TRUST_CERTIFICATE "/usr/local/share/ca-certificates/cubby-sandbox.crt"
#define TRUST_DEFAULT     "/usr/lib/ssl/cert.pem" // where OpenSSL looks by default
#define TRUST_MAX_BYTES   65536                   // of certificates in PEM form

// ERR_INVALID if `pem` contains no certificate in PEM form.
int trust_check(const char *pem, struct err *e);
// Append these certificates to the system's bundle, in place of those of an earlier call, and write
// them alone to TRUST_CERTIFICATE; "" removes them. Files are below `root`, which is "" except in
// tests.
int trust_install(const char *root, const char *pem, struct err *e);
