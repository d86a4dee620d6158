// SPDX-License-Identifier: Apache-2.0
// Check that a template can be restored on this host. A saved memory fits one QEMU, one machine
// type and one accelerator; when they differ, the template has to be built again.
#pragma once
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/drivers/driver.h"
#include "sandbox-backend/drivers/microvm/image/template.h"

// Load the template and find QEMU. Takes a few system calls; QEMU is asked for its version once for
// each binary. ERR_NOT_FOUND, with what to do, when the template is missing or does not fit.
// t: filled on success, for template_fini. binary: new string.
int fit_load(const char *template_dir, struct template *t, char **binary, struct err *e);

// Fill the holes of a memory file on tmpfs, once for each template. There, reading a mapped hole
// allocates a page; without a free page, SIGBUS ends the reader, QEMU. ERR_NO_SPACE when the file
// system has too little room.
int fit_reserve(const char *memory, struct err *e);

// `cubby doctor` of the microvm driver: its programs, the default template and KVM.
// Check that the guest of a template for KVM can use this host's processor. ERR_NOT_FOUND, with
// what to do, when it cannot.
int fit_check_processor(const struct template *t, struct err *e);

void microvm_doctor(const char *home, finding_cb add, void *ctx); // driver.doctor
