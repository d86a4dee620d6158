// SPDX-License-Identifier: Apache-2.0
// The server's end of TLS 1.2 and 1.3 (OpenSSL): a certificate and its key, for http_server_opts.
// Nothing of OpenSSL is initialised before tls_new.
#pragma once
#include "sandbox-backend/base/err.h"

struct tls;

// Reads two PEM files: the server's certificate followed by those between it and a root, and the
// key, which must not be encrypted. On failure NULL, with an error that names the file and what is
// wrong with it. A certificate that has expired, or is not valid yet, is only warned of.
// When the files change, connections made from then on use what is in them; as long as that is not
// sound (one of the two is replaced before the other) the old pair stays, with a warning.
struct tls *tls_new(const char *certificate_path, const char *key_path, struct err *e);
void tls_free(struct tls *tls); // after the servers that use it; NULL is fine
