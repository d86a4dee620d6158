// SPDX-License-Identifier: Apache-2.0
#pragma once

// The kernel's name for this boot of the host: a pid means something only within one. Borrowed; ""
// when /proc does not say.
const char *boot_id(void);
