// SPDX-License-Identifier: Apache-2.0
// Which version of a file an answer is (RFC 9110, 8.8), and what a request makes depend on it
// (section 13). Pure.
#pragma once
#include <stdbool.h>
#include <sys/stat.h>
#include <time.h>

#define VALIDATOR_ETAG_BYTES 80
#define VALIDATOR_DATE_BYTES 40

struct validator {
    char etag[VALIDATOR_ETAG_BYTES]; // "\"...\"", with W/ in front while it is weak
    char date[VALIDATOR_DATE_BYTES]; // as Last-Modified says it
    time_t modified;
    bool is_weak; // changed so lately that another change would not show
};

// Of the representation that `coding` names ("" for the file's own bytes), at the time `now`.
void validator_init(struct validator *v, const struct stat *st, const char *coding,
                    const struct timespec *now);

struct validator_conditions { // the headers of these names; NULL without one
    const char *if_match;
    const char *if_none_match;
    const char *if_modified_since;
    const char *if_unmodified_since;
};

// 200: go on; 304 or 412: that is the answer. For GET and HEAD.
int validator_evaluate(const struct validator *v, const struct validator_conditions *c);
// Whether a range may be sent: If-Range (NULL: yes) names this version for certain.
bool validator_allows_range(const struct validator *v, const char *if_range);
