// SPDX-License-Identifier: Apache-2.0
// The secrets file: which secrets the daemon may give to sandboxes.
#include "sandbox-backend/daemon/secrets/secret_file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/host_pattern.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define FILE_MAX_BYTES  (1 << 20)
#define VALUE_MAX_BYTES 65536 // as cubby-egress has it (egress/secret.h)
#define VALUE_MIN_BYTES 8
#define NAME_MAX_BYTES  128
#define HOSTS_MAX       64
#define NAME_CHARS      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

static int check_name(const char *name, struct err *e)
{
    size_t len = strlen(name);
    if (len == 0 || len > NAME_MAX_BYTES || strspn(name, NAME_CHARS) != len ||
        (name[0] >= '0' && name[0] <= '9'))
        return err_set(
            e, ERR_INVALID,
            "\"%.80s\" is not a valid variable name: use letters, digits and _, at most %d "
            "characters, and no digit first",
            name, NAME_MAX_BYTES);
    return 0;
}

// Refuse variables that programs in the guest need: with a placeholder in one, nothing would start.
static int check_variable(const char *name, struct err *e)
{
    static const char *const TAKEN[] = {"PATH",
                                        "HOME",
                                        "USER",
                                        "LOGNAME",
                                        "SHELL",
                                        "PWD",
                                        "IFS",
                                        "ENV",
                                        "BASH_ENV",
                                        "SSL_CERT_FILE",
                                        "CURL_CA_BUNDLE",
                                        "REQUESTS_CA_BUNDLE",
                                        "GIT_SSL_CAINFO",
                                        "NODE_EXTRA_CA_CERTS"};
    bool taken = str_starts(name, "LD_");
    for (size_t i = 0; i < ARRAY_LEN(TAKEN); i++)
        taken = taken || str_eq(name, TAKEN[i]);
    if (taken)
        return err_set(
            e, ERR_INVALID,
            "programs in the sandbox need the variable %.80s: set env_name to another name", name);
    return check_name(name, e);
}

static int check_list(const json_t *entry, const char *key, bool needed, struct err *e)
{
    const json_t *list = json_object_get(entry, key);
    const json_t *item;
    size_t i;
    if (!list && !needed)
        return 0;
    if (!json_is_array(list) || json_array_size(list) == 0 || json_array_size(list) > HOSTS_MAX)
        return err_set(e, ERR_INVALID, "%s must be a list of 1 to %d entries", key, HOSTS_MAX);
    json_array_foreach (list, i, item)
        if (!json_is_string(item))
            return err_set(e, ERR_INVALID, "each entry of %s must be a string", key);
    return 0;
}

static int check_hosts(const json_t *entry, struct err *e)
{
    const json_t *item;
    size_t i;
    if (check_list(entry, "hosts", true, e) < 0)
        return -1;
    json_array_foreach (json_object_get(entry, "hosts"), i, item)
        if (host_pattern_check(json_string_value(item), e) < 0)
            return -1;
    return 0;
}

int secret_file_check_use(const json_t *entry, struct err *e)
{
    const char *variable = NULL;
    if (json_get_string(entry, "env_name", &variable, NULL, e) < 0 ||
        (variable && check_variable(variable, e) < 0))
        return -1;
    return json_object_get(entry, "hosts") ? check_hosts(entry, e) : 0;
}

static int check_members(const json_t *entry, struct err *e)
{
    static const char *const KNOWN[] = {"file", "env", "hosts", "env_name", "keys"};
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)entry, key, value) {
        bool known = false;
        for (size_t i = 0; i < ARRAY_LEN(KNOWN); i++)
            known = known || str_eq(key, KNOWN[i]);
        if (!known)
            return err_set(
                e, ERR_INVALID,
                "unknown member \"%.40s\"; the members are file or env, hosts, env_name and keys",
                key);
    }
    return 0;
}

static int check_entry(const char *name, const json_t *entry, struct err *e)
{
    const char *file = NULL, *env = NULL, *env_name = NULL;
    if (check_name(name, e) < 0)
        return -1;
    if (!json_is_object(entry))
        return err_set(e, ERR_INVALID, "the entry must be an object");
    if (check_members(entry, e) < 0 || json_get_string(entry, "file", &file, NULL, e) < 0 ||
        json_get_string(entry, "env", &env, NULL, e) < 0 ||
        json_get_string(entry, "env_name", &env_name, name, e) < 0 ||
        check_variable(env_name, e) < 0)
        return -1;
    if (!file == !env)
        return err_set(e, ERR_INVALID,
                       "the entry must have either \"file\" or \"env\" (a variable of the daemon)");
    if (file && file[0] != '/')
        return err_set(e, ERR_INVALID, "\"file\" must be an absolute path");
    return check_hosts(entry, e) < 0 ? -1 : check_list(entry, "keys", false, e);
}

// A writer of the file decides where values are sent.
static int check_writers(const char *path, struct err *e)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return err_sys(e, errno, "%s", path);
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return err_set(
            e, ERR_DENIED,
            "%s belongs to another user (%u), who could redirect secrets; chown it to the "
            "user of cubbyd",
            path, st.st_uid);
    if (st.st_mode & (S_IWGRP | S_IWOTH))
        return err_set(e, ERR_DENIED, "%s can be written by others; chmod go-w it", path);
    return 0;
}

json_t *secret_file_read(const char *path, struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    const char *name;
    json_t *entry;
    if (check_writers(path, e) < 0 || file_read(path, FILE_MAX_BYTES, &text, e) < 0)
        return NULL;
    json_t *all = json_parse(buf_str(&text), text.len, e);
    if (all && !json_is_object(all)) {
        err_set(e, ERR_INVALID, "the file must hold one JSON object with a member for each secret");
        json_decref(steal(&all));
    }
    json_object_foreach (all, name, entry) {
        if (check_entry(name, entry, e) == 0)
            continue;
        err_wrap(e, "secret \"%.80s\"", name);
        json_decref(steal(&all));
        break;
    }
    if (!all)
        err_wrap(e, "%s", path);
    return all;
}

const char *secret_file_env_name(const char *name, const json_t *entry)
{
    const char *env_name = json_string_value(json_object_get(entry, "env_name"));
    return env_name ? env_name : name;
}

bool secret_file_allows(const json_t *entry, const char *owner)
{
    const json_t *item;
    size_t i;
    if (!owner)
        return true;
    json_array_foreach (json_object_get(entry, "keys"), i, item)
        if (str_eq(json_string_value(item), "*") || str_eq(json_string_value(item), owner))
            return true;
    return false;
}

// ---- values

// Read regular files only: a pipe or a device could block the daemon.
static char *read_value(const char *path, struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        err_set(e, ERR_INVALID, "%s is not a regular file", path);
        return NULL;
    }
    if (file_read(path, VALUE_MAX_BYTES + 2, &text, e) < 0)
        return NULL;
    while (text.len && (text.data[text.len - 1] == '\n' || text.data[text.len - 1] == '\r'))
        text.data[--text.len] = '\0';
    char *value = strlen(buf_str(&text)) == text.len ? xstrdup(buf_str(&text)) : NULL;
    if (!value)
        err_set(e, ERR_INVALID, "%s contains a NUL byte", path);
    if (text.data)
        explicit_bzero(text.data, text.cap);
    return value;
}

int secret_file_check_value(const char *value, struct err *e)
{
    size_t len = value ? strlen(value) : 0;
    if (len < VALUE_MIN_BYTES || len > VALUE_MAX_BYTES)
        return err_set(e, ERR_INVALID, "the secret's value must have %d to %d bytes",
                       VALUE_MIN_BYTES, VALUE_MAX_BYTES);
    for (const char *c = value; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7F)
            return err_set(e, ERR_INVALID,
                           "the secret's value must be one line without control characters");
    if (!utf8_is_valid(value, len))
        return err_set(e, ERR_INVALID, "the secret's value is not UTF-8");
    return 0;
}

char *secret_file_value(const json_t *entry, struct err *e)
{
    const char *path = json_string_value(json_object_get(entry, "file"));
    const char *variable = json_string_value(json_object_get(entry, "env"));
    const char *found = variable ? getenv(variable) : NULL;
    char *value = path ? read_value(path, e) : found ? xstrdup(found) : NULL;
    if (!value && variable)
        err_set(e, ERR_NOT_FOUND, "the daemon's environment has no variable %.80s", variable);
    if (value && secret_file_check_value(value, e) < 0) {
        explicit_bzero(value, strlen(value));
        free(steal(&value));
    }
    return value;
}
