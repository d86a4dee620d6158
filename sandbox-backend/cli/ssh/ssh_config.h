// SPDX-License-Identifier: Apache-2.0
// The names that ssh-config and ssh-proxy share.
#pragma once

#define SSH_SUFFIX ".cubby" // ID.cubby is a sandbox for ssh
