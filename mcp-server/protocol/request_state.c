// SPDX-License-Identifier: Apache-2.0
// What a server that remembers nothing gives its client to bring back.
//
// "<expiry> <base64 of the state> <HMAC-SHA256>", the latter over both and over what they are good
// for: the caller, the method, and its parameters as canonical JSON without those that a retry
// adds or changes. The key is random and made when it is first needed; a process that starts anew
// knows no state of the one before, whose clients ask again from the beginning.
#include "mcp-server/protocol/request_state.h"

#include <inttypes.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <string.h>

#include "mcp-server/protocol/exchange.h"
#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

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

// Each part with its length, so that no two lists of parts are the same bytes.
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

// `open`: expiry and state as they are sent; the MAC as base64.
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

// Compared as text: base64 can say the same bytes in more than one way.
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
        err_set(e, ERR_NOT_FOUND, "the request brings no state");
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
        err_set(e, ERR_DENIED, "requestState is not what this server gave for this request");
        return NULL;
    }
    if (strtoll(open, NULL, 10) <= clock_mono_ms() / 1000) {
        err_set(e, ERR_DENIED, "requestState has expired: begin anew, without it");
        return NULL;
    }
    return xstrdup(buf_str(&state));
}
