// SPDX-License-Identifier: Apache-2.0
// A subscription of one subscriber to one URI, as the URI's source sees it (resources.h). A source
// answers `watch` with one subscription_started or subscription_ended, now or later, and may end a
// started subscription later. Each of these calls may free the subscription.
#pragma once
#include "sandbox-backend/base/err.h"

struct caller;
struct subscription;
struct context;

const char *subscription_uri(const struct subscription *s); // as the client sent it; borrowed
const struct caller *subscription_caller(const struct subscription *s);
struct context *subscription_context(const struct subscription *s);
void subscription_set_state(struct subscription *s, void *state); // the source's own
void *subscription_state(const struct subscription *s);

void subscription_started(struct subscription *s); // changes from now on are reported
void subscription_changed(
    struct subscription *s); // may be called often; the subscriber limits the rate
// End it: the resource cannot be watched (ERR_NOT_FOUND: it does not exist), or not any more, which
// the subscriber gets as a last change. `s` is freed; unwatch is not called.
void subscription_ended(struct subscription *s, const struct err *e);
