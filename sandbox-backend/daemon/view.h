// SPDX-License-Identifier: Apache-2.0
// A sandbox as the API shows it. New references.
#pragma once
#include <jansson.h>

struct sandbox;

json_t *view_created(const struct sandbox *sb);
// The same of one that was just made: says why when that took long.
json_t *view_new(const struct sandbox *sb);    // E2B's Sandbox: the answer to create and connect
json_t *view_detail(const struct sandbox *sb); // SandboxDetail
json_t *view_listed(const struct sandbox *sb); // ListedSandbox
