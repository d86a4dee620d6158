// SPDX-License-Identifier: Apache-2.0
// Where the daemon of a home listens.
#pragma once

// The URL of its TCP address, from <home>/cubbyd.url; new string, NULL when it does not listen there
// or does not run.
char *listening_url(const char *home);
