// SPDX-License-Identifier: Apache-2.0
// The files that a mounted directory of the host hides from a sandbox by default, as rules
// (rules.h). cubbyd and `cubby doctor` list them, too.
#pragma once

// Secrets of a project, and files by which a guest would run commands on the host: git executes
// what its configuration and its hooks say, and other files tell where those are (share_git.c).
#define HIDDEN_BY_DEFAULT    \
    ".env\n"                 \
    ".env.*\n"               \
    "!.env.example\n"        \
    "!.env.sample\n"         \
    "!.env.template\n"       \
    ".envrc\n"               \
    ".git/commondir\n"       \
    ".git/config\n"          \
    ".git/config.worktree\n" \
    ".git/gitdir\n"          \
    ".git/hooks\n"           \
    ".git/modules\n"         \
    ".git/worktrees\n"       \
    ".git-credentials\n"     \
    ".netrc\n"               \
    ".npmrc\n"               \
    ".pypirc\n"              \
    ".ssh\n"                 \
    ".aws\n"                 \
    ".kube\n"                \
    "id_rsa\n"               \
    "id_ecdsa\n"             \
    "id_ed25519\n"
