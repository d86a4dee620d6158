// SPDX-License-Identifier: Apache-2.0
// libjose, loaded when it is first wanted.
#include "mcp-server/auth/jose_library.h"

#include <dlfcn.h>
#include <jose/cfg.h>
#include <jose/jws.h>
#include <stdint.h>

#define LIBRARY "libjose.so.0"

static struct {
    __typeof__(jose_jws_ver) *verify;
    jose_cfg_t *config; // without it libjose writes its errors to stderr
} jose;

static void on_jose_error(void *ctx, const char *file, int line, uint64_t error, const char *fmt,
                          va_list args)
{
    (void)ctx, (void)file, (void)line, (void)error, (void)fmt, (void)args;
}

int jose_library_load(struct err *e)
{
    if (jose.verify)
        return 0;
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL); // for the life of the process
    if (!library)
        return err_set(e, ERR_UNAVAILABLE,
                       "signatures cannot be checked without libjose (Debian: libjose0): %s",
                       dlerror());
    __typeof__(jose_cfg) *make = dlsym(library, "jose_cfg");
    __typeof__(jose_cfg_set_err_func) *set = dlsym(library, "jose_cfg_set_err_func");
    __typeof__(jose_jws_ver) *verify = dlsym(library, "jose_jws_ver");
    if (!make || !set || !verify)
        return err_set(e, ERR_UNAVAILABLE, "this %s is not the library it should be", LIBRARY);
    jose.config = make();
    set(jose.config, on_jose_error, NULL);
    jose.verify = verify;
    return 0;
}

bool jose_library_verify(const json_t *jws, const json_t *jwk)
{
    return jose.verify(jose.config, jws, NULL, jwk, false);
}
