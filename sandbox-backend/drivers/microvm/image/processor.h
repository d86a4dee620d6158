// SPDX-License-Identifier: Apache-2.0
// The processor that a guest sees under KVM. It is the host's own, so the memory of a guest is of
// use only on a host whose processor has the same features: the guest's programs found them at
// their start and do not look again.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/buf.h"

// Return what this host's KVM offers a guest: vendor, family/model, and the features as words of
// CPUID, "AuthenticAMD 25/17 1.ecx=81202000 ...". New string; NULL when KVM cannot be asked. Takes
// less than a millisecond.
char *processor_here(void);
struct kvm_cpuid2;
char *processor__describe(const struct kvm_cpuid2 *all); // the same of KVM's answer
// Make processor_here return a copy of `text`, as on another host. For tests. Borrowed.
void processor_use(const char *text);

// Tell whether a guest that was saved with the processor `saved` can go on with `here`: the same
// vendor and model, and no feature less. If not, append the reason to `why`, as a clause: "it was
// made on ...". Either may be NULL, for unknown: that fits.
bool processor_fits(const char *saved, const char *here, struct buf *why);
