// SPDX-License-Identifier: Apache-2.0
// Questions of the modern era: a request is answered with the missing inputs, and comes again with
// them.
#include "mcp-server/protocol/inputs.h"

#include <inttypes.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <string.h>

#include "mcp-server/protocol/exchange.h"
#include "mcp-server/protocol/question.h"
#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

static bool responses_are_good(const json_t *responses)
{
    const char *key;
    json_t *one;
    if (!json_is_object(responses))
        return false;
    json_object_foreach ((json_t *)(uintptr_t)responses, key, one) {
        if (!json_is_object(one))
            return false;
    }
    return true;
}

bool inputs_are_good(struct exchange *x)
{
    if (!x->era || !x->era->modern)
        return true;
    const json_t *responses = json_object_get(x->params, "inputResponses");
    const json_t *state = json_object_get(x->params, "requestState");
    if (responses && !responses_are_good(responses)) {
        exchange_error(x, RPC_INVALID_PARAMS, NULL,
                       "params.inputResponses must be an object whose members are objects");
        return false;
    }
    if (state && !json_is_string(state)) {
        exchange_error(x, RPC_INVALID_PARAMS, NULL, "params.requestState must be a string");
        return false;
    }
    return true;
}

const json_t *inputs_response(const struct exchange *x, const char *key)
{
    if (!x->era || !x->era->modern)
        return NULL;
    return json_object_get(json_object_get(x->params, "inputResponses"), key);
}

json_t *inputs_new(void)
{
    return json_object();
}

bool inputs_add(json_t *inputs, const struct exchange *x, const char *key, const char *method,
                json_t *params)
{
    if (!question_is_allowed(x, method, params)) {
        json_decref(params);
        return false;
    }
    json_t *requests = json_object_get(inputs, "inputRequests");
    if (!requests) {
        requests = json_object();
        json_object_set_new(inputs, "inputRequests", requests);
    }
    json_t *request = json_object();
    json_object_set_new(request, "method", json_string(method));
    json_object_set_new(request, "params", params);
    json_object_set_new(requests, key, request);
    return true;
}

void inputs_set_state(json_t *inputs, const struct exchange *x, const char *state, int64_t life_s)
{
    json_object_set_new(inputs, "requestState", request_state_seal(x, state, life_s));
}

void inputs_ask(struct exchange *x, json_t *inputs)
{
    json_object_set_new(inputs, "resultType", json_string("input_required"));
    exchange_result(x, inputs);
}

// ---- requestState: the state of a request that the client keeps for the server
//
// The format is "<expiry> <base64 of the state> <HMAC-SHA256>". The HMAC covers both and the
// request: caller, method, and its parameters as canonical JSON without those that a retry adds or
// changes. The key is random and made when it is first needed. A new process accepts no state of
// the previous one, so its clients start again.

#define KEY_BYTES 32

static const unsigned char *key(void)
{
    static unsigned char bytes[KEY_BYTES];
    static bool is_made;
    if (!is_made)
        random_bytes(bytes, sizeof bytes);
    is_made = true;
    return bytes;
}

// Append a part with its length, so that different lists of parts never give the same bytes.
static void add_part(struct buf *out, const char *part)
{
    buf_printf(out, "%zu:%s", part ? strlen(part) : 0, part ? part : "");
}

static void add_params(struct buf *out, const json_t *params)
{
    static const char *const OF_THE_RETRY[] = {"_meta", "inputResponses", "requestState"};
    json_t *kept = params ? json_copy((json_t *)(uintptr_t)params) : json_object();
    for (size_t i = 0; i < ARRAY_LEN(OF_THE_RETRY); i++)
        json_object_del(kept, OF_THE_RETRY[i]);
    char *text auto_free = json_dumps(kept, JSON_SORT_KEYS | JSON_COMPACT);
    json_decref(kept);
    add_part(out, text);
}

// Return the MAC as base64. `open`: expiry and state as they are sent.
static void add_mac(struct buf *out, const struct exchange *x, const char *open)
{
    struct buf all auto_buf = BUF_INIT;
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    add_part(&all, x->session->caller->owner);
    add_part(&all, x->method);
    add_params(&all, x->params);
    add_part(&all, open);
    if (!HMAC(EVP_sha256(), key(), KEY_BYTES, (const unsigned char *)all.data, all.len, mac, &len))
        abort(); // an OpenSSL without SHA-256, or no memory for a context
    base64_encode(out, mac, len);
}

json_t *request_state_seal(const struct exchange *x, const char *state, int64_t life_s)
{
    struct buf out auto_buf = BUF_INIT;
    buf_printf(&out, "%" PRId64 " ", clock_mono_ms() / 1000 + life_s);
    base64_encode(&out, state, strlen(state));
    struct buf mac auto_buf = BUF_INIT;
    add_mac(&mac, x, buf_str(&out));
    buf_addc(&out, ' ');
    buf_add(&out, mac.data, mac.len);
    return json_string(buf_str(&out));
}

// Compared as text, because base64 can encode the same bytes in several ways.
static bool is_sealed(const struct exchange *x, const char *open, const char *by)
{
    struct buf mac auto_buf = BUF_INIT;
    add_mac(&mac, x, open);
    return strlen(by) == mac.len && CRYPTO_memcmp(by, mac.data, mac.len) == 0;
}

char *request_state_open(const struct exchange *x, struct err *e)
{
    const json_t *brought = json_object_get(x->params, "requestState");
    if (!brought) {
        err_set(e, ERR_NOT_FOUND, "the request has no requestState");
        return NULL;
    }
    struct buf state auto_buf = BUF_INIT;
    const char *text = json_string_value(brought);
    char *open auto_free = xstrdup(text && strlen(text) <= 2 * REQUEST_STATE_BYTES_MAX ? text : "");
    char *last = strrchr(open, ' ');
    char *middle = strchr(open, ' ');
    if (last)
        *last = '\0';
    if (!last || last == middle || !is_sealed(x, open, last + 1) ||
        !base64_decode(&state, middle + 1, strlen(middle + 1))) {
        err_set(e, ERR_DENIED,
                "requestState is invalid: this server did not issue it for this request. Send the "
                "request without it");
        return NULL;
    }
    if (strtoll(open, NULL, 10) <= clock_mono_ms() / 1000) {
        err_set(e, ERR_DENIED, "requestState has expired. Send the request again without it");
        return NULL;
    }
    return xstrdup(buf_str(&state));
}
