// SPDX-License-Identifier: Apache-2.0
// Fuzz the configuration that cubby-egress reads at its start. Every input is accepted, or refused
// with a message that contains no part of the input, because the input has secrets. "@C" and "@K"
// stand for a certificate and its key.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/host_pattern.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/egress/egress.h"
#include "sandbox-backend/keys/authority.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define KEY_WORDS "PRIVATE KEY" // a key begins and ends with them

static struct authority ca;

static void require(bool promise)
{
    if (!promise)
        abort();
}

static void add_pem(struct buf *out, const char *pem)
{
    for (; *pem; pem++) {
        if (*pem == '\n')
            buf_adds(out, "\\n");
        else
            buf_addc(out, *pem);
    }
}

static void fill_in(struct buf *out, const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (data[i] == '@' && i + 1 < size && (data[i + 1] == 'C' || data[i + 1] == 'K'))
            add_pem(out, data[++i] == 'C' ? ca.certificate : ca.key);
        else
            buf_addc(out, (char)data[i]);
    }
}

static int file_of(const struct buf *text)
{
    int fd = memfd_create("config", MFD_CLOEXEC);
    require(fd >= 0 && fd_write_all(fd, text->data ? text->data : "", text->len, NULL) == 0);
    require(lseek(fd, 0, SEEK_SET) == 0);
    return fd;
}

static size_t count_of(const struct buf *text, const char *word)
{
    size_t count = 0;
    for (const char *at = buf_str(text); (at = strstr(at, word)); at++)
        count++;
    return count;
}

// A sentence quotes names and hosts; a key or a value that is nothing else must not be in it.
static void check_sentence(const char *said, const struct buf *text)
{
    json_t *json = json_parse(buf_str(text), text->len, NULL);
    const json_t *one;
    size_t i;
    const char *key = json_string_value(json_object_get(json_object_get(json, "ca"), "key"));
    bool is_nothing_else = key && strcmp(key, ca.key) == 0 && count_of(text, KEY_WORDS) == 2;
    if (is_nothing_else)
        require(!strstr(said, KEY_WORDS));
    json_array_foreach (json_object_get(json, "secrets"), i, one) {
        const char *value = json_string_value(json_object_get(one, "value"));
        if (value && strlen(value) >= 4 && count_of(text, value) == 1)
            require(!strstr(said, value));
    }
    json_decref(json);
}

static void check_line(const char *text, size_t min, size_t max)
{
    size_t len = strlen(text);
    require(len >= min && len <= max);
    for (size_t i = 0; i < len; i++)
        require((unsigned char)text[i] >= ' ' && text[i] != 0x7f);
}

static void check_secret(const struct secret *s)
{
    check_line(s->name, 1, 128);
    check_line(s->placeholder, SECRET_PLACEHOLDER_MIN, 256);
    check_line(s->value, SECRET_VALUE_MIN, SECRET_VALUE_MAX);
    require(!s->percent || *s->percent);
    require(s->host_count > 0 && s->host_count <= SECRET_HOSTS_MAX);
    for (size_t i = 0; i < s->host_count; i++)
        require(host_pattern_check(s->hosts[i], NULL) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct egress_config c;
    struct err e = ERR_INIT;
    struct buf text auto_buf = BUF_INIT;
    if (!ca.key)
        require(authority_make(&ca, "fuzz", &e) == 0);
    if (size && memmem(data, size, "\"trust\"", 7)) // no file of this machine is opened
        return 0;
    fill_in(&text, data, size);
    int fd = file_of(&text);
    int rc = egress_config_read(&c, fd, &e);
    require(close(fd) < 0); // it has done that
    require((rc == 0) != err_is(&e));
    if (rc < 0)
        check_sentence(e.msg, &text);
    if (rc == 0)
        require(c.leaves && c.tls && c.secrets.count <= SECRETS_MAX);
    for (size_t i = 0; rc == 0 && i < c.secrets.count; i++)
        check_secret(&c.secrets.items[i]);
    egress_config_fini(&c);
    return 0;
}
