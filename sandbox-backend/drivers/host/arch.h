// SPDX-License-Identifier: Apache-2.0
// Names that differ by the processor that Cubby is compiled for. docs/arm64.md says what is missing
// on arm64.
#pragma once

#if defined(__x86_64__)
#define ARCH_DEBIAN       "amd64"
#define ARCH_QEMU         "qemu-system-x86_64"
#define ARCH_QEMU_PACKAGE "qemu-system-x86" // Debian's package of that program
#define ARCH_QEMU_MACHINE "microvm"
#elif defined(__aarch64__)
#define ARCH_DEBIAN       "arm64"
#define ARCH_QEMU         "qemu-system-aarch64"
#define ARCH_QEMU_PACKAGE "qemu-system-arm"
#define ARCH_QEMU_MACHINE "virt"
#else
#error "Cubby has no names for this processor"
#endif
