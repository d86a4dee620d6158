// SPDX-License-Identifier: Apache-2.0
// What an answer that is not a success means, as an error. Pure. For client/ only.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "sandbox-backend/base/err.h"

#define ANSWER_ERROR_BYTES_MAX (64 * 1024) // of an error's body that are kept

// The control plane's: {"code":404,"message":"...","error_code":"sandbox_ended"}.
// sandbox_ended is ERR_GONE, sandbox_not_found and any other 404 ERR_NOT_FOUND.
void answer_api_error(struct err *e, int status, const char *body, size_t len);

// envd's or the proxy's in front of it. `existed`: the sandbox is known to have been there, so that
// a proxy which cannot find it says that it is gone.
//   502, error_code sandbox_paused                   ERR_CONFLICT, see answer_paused
//   502, error_code sandbox_ended, or a "reason"     ERR_GONE
//   502, sandbox_not_found, or E2B's text for that   ERR_GONE, or ERR_NOT_FOUND if never heard of
//   502, E2B's text for a port that is not open      ERR_UNAVAILABLE with sys ECONNREFUSED
//   any other 502                                    ERR_UNAVAILABLE: it runs, but does not answer
//   {"code":"not_found",...}   a Connect error
//   {"code":404,"message":..}  by the status
void answer_envd_error(struct err *e, bool existed, int status, const char *body, size_t len);

// ERR_CONFLICT: it is there, but paused, and nothing was done.
void answer_paused(struct err *e);
// E2B's proxy says the same of a paused sandbox and of one that is gone: the control plane tells.
bool answer_may_mean_paused(int status, const char *body, size_t len);
