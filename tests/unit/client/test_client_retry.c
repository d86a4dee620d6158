// SPDX-License-Identifier: Apache-2.0
// Retries: the refusals that lead to one, and its delay. The dialect that GET /health tells.
#include <string.h>

#include "sandbox-backend/client/client_internal.h"
#include "sandbox-backend/client/retry.h"
#include "tests/lib/harness/tap.h"

static uint64_t wait_of(struct retry *r, int status, const char *retry_after, const char *body)
{
    const struct refusal refusal = {.status = status,
                                    .is_whole = true,
                                    .retry_after = retry_after,
                                    .body = body,
                                    .len = strlen(body)};
    return retry_wait(r, &refusal);
}

static void test_limited(void)
{
    struct retry r = {0};
    is_int((int64_t)wait_of(&r, 429, NULL, ""), 0, "a limit that names no time is final");
    is_int((int64_t)wait_of(&r, 429, "Wed, 21 Oct 2026 07:28:00 GMT", ""), 0, "so is a date");
    is_int((int64_t)wait_of(&r, 429, "-1", ""), 0, "and nonsense");
    is_int((int64_t)wait_of(&r, 429, "31", ""), 0, "and too long a time");
    is_int((int64_t)wait_of(&r, 429, "2", ""), 2000, "seconds are waited for");
    is_int((int64_t)wait_of(&r, 429, "0", ""), RETRY_CONFLICT_MS, "none is a moment");
    is_int((int64_t)wait_of(&r, 429, "28", ""), 0, "not more than the longest in all");
    is_int((int64_t)wait_of(&r, 429, "27", ""), 27000, "but up to that");
    is_int((int64_t)wait_of(&r, 429, "0", ""), 0, "and not more often");
}

static void test_conflict(void)
{
    struct retry r = {0};
    const char *moving = "{\"code\":409,\"message\":\"being resumed\"}";
    is_int((int64_t)wait_of(&r, 409, NULL, "{\"code\":\"already_exists\"}"), 0,
           "envd's is an answer");
    is_int((int64_t)wait_of(&r, 409, NULL, "oops"), 0, "so is what nobody explains");
    for (int i = 0; i < RETRY_CONFLICT_MAX; i++)
        is_int((int64_t)wait_of(&r, 409, NULL, moving), RETRY_CONFLICT_MS << i, "a change passes");
    is_int((int64_t)wait_of(&r, 409, NULL, moving), 0, "or does not");
    is_int((int64_t)wait_of(&r, 503, "1", "{\"code\":503}"), 0, "another refusal is final");
    const struct refusal torn = {.status = 429, .retry_after = "1", .body = "", .len = 0};
    struct retry fresh = {0};
    is_int((int64_t)wait_of(&fresh, 409, NULL, "{\"code\":409,\"error_code\":\"sandbox_paused\"}"),
           0, "a word for something else is final");
    is_int((int64_t)wait_of(&fresh, 409, NULL,
                            "{\"code\":409,\"error_code\":\"sandbox_in_transition\"}"),
           RETRY_CONFLICT_MS, "the word for a change is not");
    const char *said[] = {moving, "{\"code\":409,\"error_code\":\"sandbox_in_transition\"}"};
    for (int i = 0; i < 2; i++) {
        struct retry again = {0};
        const struct refusal guest = {.status = 409,
                                      .to_guest = true,
                                      .is_whole = true,
                                      .body = said[i],
                                      .len = strlen(said[i])};
        is_int((int64_t)retry_wait(&again, &guest), i ? RETRY_CONFLICT_MS : 0,
               i ? "nor before a guest" : "which may have come from the guest itself");
    }
    is_int((int64_t)retry_wait(&fresh, &torn), 0, "and an answer that broke off");
}

static void is_dialect(int status, const char *health, const char *word)
{
    const struct dialect *found = identify_judge(status, health);
    is_str(found ? found->word : "unknown", word, "%d %s", status, health);
}

static void test_identify(void)
{
    is_dialect(200, "{\"status\":\"ok\",\"server\":\"cubbyd\",\"sandboxes\":1}", "cubbyd");
    is_dialect(200, "{\"status\":\"ok\",\"sandboxes\":0}", "cube");
    is_dialect(200, "{\"status\":\"ok\"}", "e2b");
    is_dialect(200, "{\"status\":\"ok\",\"sandboxes\":\"0\"}", "e2b");
    is_dialect(200, "Health check successful", "e2b");
    is_dialect(204, "", "e2b");
    is_dialect(404, "{\"code\":404}", "e2b");
    is_dialect(200, "<html>sign in</html>", "unknown");
    is_dialect(404, "<html>", "unknown");
    is_dialect(404, "", "unknown");
    is_dialect(302, "", "unknown");
    is_dialect(401, "{\"code\":401,\"message\":\"m\"}", "unknown");
    is_dialect(403, "{\"code\":403,\"message\":\"m\"}", "unknown");
    is_dialect(429, "{\"code\":429,\"message\":\"slow down\"}", "unknown");
    is_dialect(502, "<html>", "unknown");
    is_dialect(503, "{\"status\":\"ok\",\"sandboxes\":0}", "unknown");
}

int main(void)
{
    test_limited();
    test_conflict();
    test_identify();
    return tap_done();
}
