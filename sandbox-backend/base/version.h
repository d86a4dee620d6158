// SPDX-License-Identifier: Apache-2.0
#pragma once
#define CUBBY_VERSION "0.1.0"
// The release of E2B's envd with whose features Cubby's envd is compatible. E2B's SDKs choose their
// behaviour by it.
#define ENVD_VERSION "0.6.4"
