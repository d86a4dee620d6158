// SPDX-License-Identifier: Apache-2.0
#pragma once
#define CUBBY_VERSION "0.1.0"
// The envd release whose promises ours keeps; E2B's SDKs choose their behaviour by it.
#define ENVD_VERSION "0.6.4"
