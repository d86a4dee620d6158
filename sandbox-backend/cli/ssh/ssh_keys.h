// SPDX-License-Identifier: Apache-2.0
// The keys of ssh connections to sandboxes. They are made by ssh-keygen, in <home>/ssh:
//   id           the key of this user, which `ca` has signed (id-cert.pub)
//   ca           signs that key, and the host key of each connection, which is a new one
//   known_hosts  tells ssh to believe host keys that `ca` signed
// No private key of this directory leaves the host. A sandbox gets the public half of `ca`, whose
// user certificates its server accepts, and the host key of its own connection, which is signed for
// some minutes, for the name that ssh was given. ssh offers certificates only: so it shows no key
// that the user's configuration names for all hosts.
#pragma once
#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"

#define SSH_DIR "ssh" // in the home

// Make the directory and its keys if they are missing. Several processes may try at once.
int ssh_keys_make(const char *home, struct err *e);

// Return the path of a file in the directory. New string.
char *ssh_keys_path(const char *home, const char *name);

// The keys for the ssh server of one connection.
struct ssh_server_keys {
    struct buf host;        // its private key
    struct buf certificate; // of that key, signed for one name
    struct buf user;        // the line of authorized_keys that it accepts
};
// Make them for the name by which ssh calls the sandbox. ERR_PRECONDITION: ssh_keys_make has not
// run in this home. ssh_server_keys_fini frees in every case.
int ssh_server_keys_make(const char *home, const char *name, struct ssh_server_keys *out,
                         struct err *e);
void ssh_server_keys_fini(struct ssh_server_keys *k);
