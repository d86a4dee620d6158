// SPDX-License-Identifier: Apache-2.0
// The secrets that clients make through the API.
#include "sandbox-backend/daemon/secrets/secret_store.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/json_fields.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/secrets/secret_file.h"
#include "sandbox-backend/log/log.h"

#define FORMAT             1
#define INDEX              "index.json"
#define INDEX_BYTES_MAX    (64L << 20)
#define ID_BYTES           10
#define NAME_BYTES_MAX     128
#define METADATA_MAX       32
#define METADATA_KEY_MAX   128
#define METADATA_VALUE_MAX 1024
#define METADATA_BYTES_MAX 8192

#define TEXT(member) JSON_FIELD(JSON_FIELD_TEXT, struct stored_secret, member)
#define LONG(member) JSON_FIELD(JSON_FIELD_LONG, struct stored_secret, member)
static const struct json_field FIELDS[] = {TEXT(id),      TEXT(name),       TEXT(owner),
                                           LONG(version), LONG(created_ns), LONG(updated_ns)};

static void secret_free(struct stored_secret *secret)
{
    free(secret->id);
    free(secret->name);
    free(secret->owner);
    json_decref(secret->metadata);
    free(secret);
}

static char *value_path(const struct secret_store *s, const struct stored_secret *secret)
{
    return str_printf("%s/%s.%lld", s->dir, secret->id, (long long)secret->version);
}

// ---- the index
static int save(const struct secret_store *s, struct err *e)
{
    char *path auto_free = str_printf("%s/" INDEX, s->dir);
    struct buf text auto_buf = BUF_INIT;
    json_t *list = json_array();
    const struct stored_secret *secret = NULL;
    TAILQ_FOREACH (secret, &s->all, link) {
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is freed was taken out of the list
        json_t *one = json_pack("{s:O}", "metadata", secret->metadata);
        json_fields_write(one, secret, FIELDS, ARRAY_LEN(FIELDS));
        json_array_append_new(list, one);
    }
    json_t *all = json_pack("{s:i, s:o}", "format", FORMAT, "secrets", list);
    json_to_buf(&text, all);
    json_decref(all);
    return file_write_atomic(path, text.data, text.len, 0600, e);
}

static void read_one(struct secret_store *s, const json_t *json, struct err *e)
{
    struct stored_secret *secret = xcalloc(1, sizeof *secret);
    json_t *metadata = json_object_get(json, "metadata");
    secret->metadata = json_is_object(metadata) ? json_incref(metadata) : json_object();
    TAILQ_INSERT_TAIL(&s->all, secret, link);
    if (json_fields_read(secret, json, FIELDS, ARRAY_LEN(FIELDS), e) == 0 &&
        (!secret->id || !secret->name || !str_starts(secret->id, SECRET_ID_PREFIX)))
        err_set(e, ERR_INVALID, "a secret lacks its id or its name");
}

static int read_index(struct secret_store *s, struct err *e)
{
    char *path auto_free = str_printf("%s/" INDEX, s->dir);
    int64_t format = 0;
    size_t i;
    const json_t *one;
    if (!file_exists(path))
        return 0;
    json_t *json = json_file_read(path, INDEX_BYTES_MAX, e);
    if (json && json_get_int(json, "format", FORMAT, FORMAT, &format, 0, e) == 0)
        json_array_foreach (json_object_get(json, "secrets"), i, one)
            if (!err_is(e))
                read_one(s, one, e);
    json_decref(json);
    return err_is(e) ? err_wrap(e, "%s", path) : 0;
}

static bool is_named(const struct secret_store *s, const char *file)
{
    const struct stored_secret *secret = NULL;
    TAILQ_FOREACH (secret, &s->all, link) {
        char *path auto_free = value_path(s, secret);
        if (strcmp(str_base(path), file) == 0)
            return true;
    }
    return strcmp(file, INDEX) == 0;
}

// Remove the values that a daemon left behind that ended while it stored a secret.
static void remove_rest(const struct secret_store *s)
{
    DIR *dir = opendir(s->dir);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (entry->d_type == DT_REG && !is_named(s, entry->d_name))
            unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir)
        closedir(dir);
}

int secret_store_open(struct secret_store *s, const char *home, struct err *e)
{
    TAILQ_INIT(&s->all);
    s->dir = home_path(home, "secrets");
    if (read_index(s, e) < 0)
        return -1;
    remove_rest(s);
    return 0;
}

void secret_store_fini(struct secret_store *s)
{
    for (struct stored_secret *secret; s->dir && (secret = TAILQ_FIRST(&s->all));) {
        TAILQ_REMOVE(&s->all, secret, link);
        secret_free(secret);
    }
    free(s->dir);
}

// ---- finding
static bool is_of(const struct stored_secret *secret, const char *owner)
{
    return owner ? str_eq(secret->owner, owner) : !secret->owner;
}

struct stored_secret *secret_store_find(const struct secret_store *s, const char *name,
                                        const char *owner)
{
    struct stored_secret *secret = NULL;
    TAILQ_FOREACH (secret, &s->all, link)
        if ((strcmp(secret->id, name) == 0 && (!owner || is_of(secret, owner))) ||
            (strcasecmp(secret->name, name) == 0 && is_of(secret, owner)))
            return secret;
    return NULL;
}

// Return the list "a.example, b.example" as an array.
static json_t *split_hosts(const char *text)
{
    char *copy auto_free = xstrdup(text);
    char *at = copy;
    json_t *hosts = json_array();
    for (char *host; (host = strsep(&at, ","));) {
        host += strspn(host, " ");
        host[strcspn(host, " ")] = '\0';
        json_array_append_new(hosts, json_string(host));
    }
    return hosts;
}

static char *default_variable(const char *name)
{
    char *variable = xstrdup(name);
    for (char *c = variable; *c; c++)
        *c = isalnum((unsigned char)*c) ? (char)toupper((unsigned char)*c) : '_';
    return variable;
}

// `path` NULL: any, for a check.
static json_t *entry_of(const char *name, const json_t *metadata, const char *path)
{
    const char *hosts = json_string_value(json_object_get(metadata, SECRET_HOSTS_KEY));
    const char *variable = json_string_value(json_object_get(metadata, SECRET_ENV_NAME_KEY));
    char *its_own auto_free = default_variable(name);
    json_t *entry = json_pack("{s:s, s:s}", "file", path ? path : "/", "env_name",
                              variable ? variable : its_own);
    if (hosts)
        json_object_set_new(entry, "hosts", split_hosts(hosts));
    return entry;
}

json_t *secret_store_entry(const struct secret_store *s, const char *name, const char *owner)
{
    const struct stored_secret *secret = secret_store_find(s, name, owner);
    char *path auto_free = secret ? value_path(s, secret) : NULL;
    return secret ? entry_of(secret->name, secret->metadata, path) : NULL;
}

// ---- checks
static int check_name(const char *name, struct err *e)
{
    size_t len = name ? strlen(name) : 0;
    if (!len || len > NAME_BYTES_MAX)
        return err_set(e, ERR_INVALID, "name must have 1 to %d bytes", NAME_BYTES_MAX);
    for (const char *c = name; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7F || *c == '{' || *c == '}')
            return err_set(e, ERR_INVALID,
                           "name must have no braces and no control characters, because "
                           "${e2b.secrets.NAME} stands for the secret");
    if (strncasecmp(name, SECRET_ID_PREFIX, strlen(SECRET_ID_PREFIX)) == 0)
        return err_set(e, ERR_INVALID,
                       "name must not begin with " SECRET_ID_PREFIX ": ids begin with it");
    return 0;
}

static int check_metadata(const char *name, const json_t *metadata, struct err *e)
{
    const char *key;
    json_t *value;
    size_t bytes = 0;
    json_object_foreach ((json_t *)(uintptr_t)metadata, key, value) {
        if (strlen(key) > METADATA_KEY_MAX || json_string_length(value) > METADATA_VALUE_MAX)
            return err_set(e, ERR_INVALID, "metadata: a key may have %d bytes and a value %d bytes",
                           METADATA_KEY_MAX, METADATA_VALUE_MAX);
        bytes += strlen(key) + json_string_length(value);
    }
    if (json_object_size(metadata) > METADATA_MAX || bytes > METADATA_BYTES_MAX)
        return err_set(e, ERR_INVALID, "metadata may have %d entries and %d bytes", METADATA_MAX,
                       METADATA_BYTES_MAX);
    json_t *entry = entry_of(name, metadata, NULL);
    bool is_given = json_object_get(metadata, SECRET_HOSTS_KEY) ||
                    json_object_get(metadata, SECRET_ENV_NAME_KEY);
    int rc = is_given ? secret_file_check_use(entry, e) : 0;
    json_decref(entry);
    return rc < 0 ? err_wrap(e, "metadata (cubby.hosts, cubby.env_name)") : 0;
}

static size_t count_of(const struct secret_store *s, const char *owner)
{
    size_t count = 0;
    const struct stored_secret *secret = NULL;
    TAILQ_FOREACH (secret, &s->all, link)
        count += is_of(secret, owner);
    return count;
}

// ---- changes
static int write_value(const struct secret_store *s, const struct stored_secret *secret,
                       const char *value, struct err *e)
{
    char *path auto_free = value_path(s, secret);
    if (dir_make(s->dir, 0700, e) < 0)
        return -1;
    return file_write_atomic(path, value, strlen(value), 0600, e);
}

static void remove_value(const struct secret_store *s, const struct stored_secret *secret)
{
    char *path auto_free = value_path(s, secret);
    if (unlink(path) < 0 && errno != ENOENT)
        log_warn("secret.remove", "id=%s error=\"%s\"", secret->id, strerror(errno));
}

struct stored_secret *secret_store_add(struct secret_store *s, const char *name, const char *value,
                                       json_t *metadata, const char *owner, struct err *e)
{
    if (check_name(name, e) < 0 || secret_file_check_value(value, e) < 0 ||
        check_metadata(name, metadata, e) < 0)
        return NULL;
    if (secret_store_find(s, name, owner)) {
        err_set(e, ERR_EXISTS, "there is a secret \"%.80s\" already; update it", name);
        return NULL;
    }
    if (count_of(s, owner) >= SECRETS_STORED_MAX) {
        err_set(e, ERR_LIMIT, "the limit of %d secrets is reached; delete one", SECRETS_STORED_MAX);
        return NULL;
    }
    struct stored_secret *secret = xcalloc(1, sizeof *secret);
    char *unique auto_free = random_hex(ID_BYTES);
    secret->id = str_printf(SECRET_ID_PREFIX "%s", unique);
    secret->name = xstrdup(name);
    for (char *c = secret->name; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    secret->owner = owner ? xstrdup(owner) : NULL;
    secret->metadata = metadata ? json_deep_copy(metadata) : json_object();
    secret->version = 1;
    secret->created_ns = secret->updated_ns = clock_wall_ns();
    TAILQ_INSERT_TAIL(&s->all, secret, link);
    if (write_value(s, secret, value, e) == 0 && save(s, e) == 0) {
        log_info("secret.added", "id=%s", secret->id);
        return secret;
    }
    remove_value(s, secret);
    TAILQ_REMOVE(&s->all, secret, link);
    secret_free(secret);
    return NULL;
}

int secret_store_change(struct secret_store *s, struct stored_secret *secret, const char *value,
                        json_t *metadata, struct err *e)
{
    if (secret_file_check_value(value, e) < 0 || check_metadata(secret->name, metadata, e) < 0)
        return -1;
    struct stored_secret before = *secret;
    secret->version++;
    secret->updated_ns = clock_wall_ns();
    secret->metadata = metadata ? json_deep_copy(metadata) : json_incref(before.metadata);
    bool stored = write_value(s, secret, value, e) == 0 && save(s, e) == 0;
    remove_value(s, stored ? &before : secret);
    json_decref(stored ? before.metadata : secret->metadata);
    if (!stored)
        *secret = before;
    return stored ? 0 : -1;
}

int secret_store_remove(struct secret_store *s, struct stored_secret *secret, struct err *e)
{
    struct stored_secret *next = TAILQ_NEXT(secret, link);
    TAILQ_REMOVE(&s->all, secret, link);
    if (save(s, e) == 0) {
        log_info("secret.removed", "id=%s", secret->id);
        remove_value(s, secret);
        secret_free(secret);
        return 0;
    }
    if (next)
        TAILQ_INSERT_BEFORE(next, secret, link);
    else
        TAILQ_INSERT_TAIL(&s->all, secret, link);
    return -1;
}

int secret_store_remove_of(struct secret_store *s, const char *owner, struct err *e)
{
    struct stored_secret *next;
    for (struct stored_secret *secret = TAILQ_FIRST(&s->all); secret; secret = next) {
        next = TAILQ_NEXT(secret, link);
        if (is_of(secret, owner) && secret_store_remove(s, secret, e) < 0)
            return -1;
    }
    return 0;
}
