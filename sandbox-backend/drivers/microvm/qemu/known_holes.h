// SPDX-License-Identifier: Apache-2.0
// Published holes of QEMU in the devices that Cubby gives to its guests. docs/advisories.md has
// them all, with those that no guest reaches here.
#pragma once

// Return the CVEs that this version of QEMU has, such as "CVE-2021-3748 (virtio-net)", separated by
// commas. New string, "" for none or for a version that cannot be read. A distribution may have
// fixed one without another version.
char *known_holes(const char *version);
