// SPDX-License-Identifier: Apache-2.0
// How this host's distribution installs packages.
#pragma once

// Return the command that installs these packages here, such as "sudo dnf install qemu-img". Names
// are Debian's, separated by spaces. If the distribution or one of its names is not known, return
// advice in words instead. New string.
char *distribution_install(const char *packages);

// The same for the text of an os-release(5) file.
char *distribution_install_for(const char *os_release, const char *packages);
