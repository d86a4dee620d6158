// SPDX-License-Identifier: Apache-2.0
// One URI that one subscriber wants to hear about, as the URI's source sees it (resources.h). A
// source answers `watch` with one subscription_started or subscription_ended, now or later, and may
// end later what it has started. Each of the three calls may free the subscription: it is not
// used after them.
#pragma once
#include "sandbox-backend/base/err.h"

struct caller;
struct subscription;
struct toolbox;

const char *subscription_uri(const struct subscription *s); // as it was asked for; borrowed
const struct caller *subscription_caller(const struct subscription *s);
struct toolbox *subscription_toolbox(const struct subscription *s);
void subscription_set_state(struct subscription *s, void *state); // the source's own
void *subscription_state(const struct subscription *s);

void subscription_started(struct subscription *s); // what changes from now on is told
void subscription_changed(struct subscription *s); // as often as it likes; it is slowed down here
// It could not be watched (ERR_NOT_FOUND: there is no such resource), or is not any more, of which
// the subscriber is told as of a last change. `s` is gone; unwatch is not called.
void subscription_ended(struct subscription *s, const struct err *e);
