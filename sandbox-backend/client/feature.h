// SPDX-License-Identifier: Apache-2.0
// What not every server that speaks E2B's protocol can do. For client/ only.
#pragma once

enum feature {
    FEATURE_NONE, // nothing that any of them lacks
    FEATURE_SNAPSHOTS,
    FEATURE_FORK,
    FEATURE_ROLLBACK,
    FEATURE_STATS,
    FEATURE_NETWORK,
    FEATURE_PORTS, // of its host, listed and closed
    FEATURE_SECRETS,
    FEATURES,
};
