// SPDX-License-Identifier: Apache-2.0
// The server's side of TLS 1.2 and 1.3 (OpenSSL): a certificate and its key, for http_server_opts.
// OpenSSL is not initialised before tls_new.
#pragma once
#include "sandbox-backend/base/err.h"

struct tls;

// Read two PEM files. The first has the server's certificate, followed by those between it and a
// root. The second has the key, which must not be encrypted. Return NULL on failure; the error
// names the file and the reason. An expired or not yet valid certificate only causes a warning.
//
// When the files change, new connections use the new content. While it is not valid (one of the two
// files is replaced before the other) the old pair stays in use, with a warning.
struct tls *tls_new(const char *certificate_path, const char *key_path, struct err *e);
void tls_free(struct tls *tls); // after the servers that use it; NULL is allowed
