// SPDX-License-Identifier: Apache-2.0
// The form of an answer tells a guest nothing of a secret's value, unless the guest knows the whole
// value.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/egress/mask.h"
#include "tests/lib/harness/tap.h"

#define VALUE "sk-live-0123456789abcdef"

static struct mask mask;
static struct buf out;

static void begin(const char *text)
{
    mask_init(&mask);
    mask_add(&mask, text);
    buf_clear(&out);
}

static void end(void)
{
    mask_fini(&mask);
    buf_fini(&out);
}

static void feed(const char *text, bool last)
{
    mask_feed(&mask, text, strlen(text), last, &out);
}

static void test_masks(void)
{
    begin(VALUE);
    feed("<" VALUE "> and " VALUE VALUE ", " VALUE, true);
    ok(!strstr(buf_str(&out), "sk-") && out.data[0] == '<' && out.data[25] == '>', "%s",
       buf_str(&out));
    ok(out.len == 4 * strlen(VALUE) + 9, "it is as long as before");
    ok(!mask_waits(&mask), "nothing is left");
    end();
}

static void test_every_cut(void)
{
    size_t wrong = 0;
    for (size_t cut = 0; cut <= strlen(VALUE); cut++) {
        begin(VALUE);
        mask_feed(&mask, VALUE, cut, false, &out);
        mask_feed(&mask, &VALUE[cut], strlen(VALUE) - cut, false, &out);
        feed(".", true);
        wrong += strspn(buf_str(&out), "*") != strlen(VALUE) || out.len != strlen(VALUE) + 1;
        end();
    }
    ok(wrong == 0, "masked wherever it is cut in two");
}

// Note how much has come out after each of: some text, a guess, a pause, more.
static void watch(const char *guess, size_t *seen)
{
    char text[400];
    memset(text, '.', sizeof text);
    memcpy(text + sizeof text - strlen(VALUE), guess, strlen(VALUE));
    begin(VALUE);
    mask_feed(&mask, text, sizeof text, false, &out);
    seen[0] = out.len;
    mask_pause(&mask, &out);
    seen[1] = out.len;
    feed("more", false);
    seen[2] = out.len;
    feed("", true);
    seen[3] = out.len;
    end();
}

static void test_guesses(void)
{
    size_t right[4], wrong[4];
    bool same = true;
    for (size_t known = 0; known < strlen(VALUE); known++) {
        char guess[] = VALUE;
        guess[strlen(VALUE) - 1] = '!'; // never the whole
        memset(guess + known, '!', strlen(VALUE) - known);
        watch(guess, right);
        watch("........................", wrong);
        same = same && memcmp(right, wrong, sizeof right) == 0;
    }
    ok(same, "a right beginning comes out when a wrong one does");
    ok(wrong[0] < 400 && wrong[1] == 400 && wrong[3] == 404, "held back, and let go by a pause");
    begin("12345678");
    feed("a text that is longer than what is held back, so that some of it comes out: "
         "................................................................................"
         "................................................................................"
         "................................................................................",
         false);
    ok(400 - wrong[0] == mask.held.len, "as much as for a shorter value");
    end();
}

static void test_pauses(void)
{
    begin(VALUE);
    feed("xsk-live-", false);
    mask_pause(&mask, &out);
    ok(strcmp(buf_str(&out), "xsk-live-") == 0, "a beginning goes when nothing more comes");
    mask_pause(&mask, &out);
    ok(out.len == 9 && !mask_waits(&mask), "once");
    feed("0123456789", false);
    mask_pause(&mask, &out);
    feed("abcdef!", true);
    ok(strncmp(buf_str(&out), "xsk-live-0123456789", 19) == 0 &&
           strcmp(buf_str(&out) + 19, "******!") == 0,
       "and the rest is masked: %s", buf_str(&out));
    end();
}

static void test_two(void)
{
    begin("abcdefgh");
    mask_add(&mask, "abcdefghijkl");
    feed("abcdefgh", false);
    feed("ij abcdefghij", false);
    feed("kl.", true);
    ok(strcmp(buf_str(&out), "********ij ************.") == 0, "the longer of two: %s",
       buf_str(&out));
    mask_keep(&mask, 1);
    buf_clear(&out);
    feed("abcdefghijkl", true);
    ok(strcmp(buf_str(&out), "********ijkl") == 0, "those of a request are forgotten");
    end();
    mask_init(&mask);
    feed(VALUE, false);
    ok(out.len == strlen(VALUE), "without texts nothing is held back");
    end();
}

int main(void)
{
    test_masks();
    test_every_cut();
    test_guesses();
    test_pauses();
    test_two();
    return tap_done();
}
