// SPDX-License-Identifier: Apache-2.0
// Parsing and changing of token files.
#include "sandbox-backend/keys/token_file.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define FILE_BYTES_MAX (1 << 20)
#define NEW_FILE_MODE  0600
#define REMOVED        "removed" // a member of the file: {NAME: time of the removal}

const struct token_kind TOKEN_BEARER = {"cubby_", 32};
const struct token_kind TOKEN_API_KEY = {"e2b_", 20};

void token_list_fini(struct token_list *l)
{
    free(l->items);
    free(l->removed);
    *l = (struct token_list){0};
}

const struct token_removal *token_list_removal(const struct token_list *l, const char *name)
{
    for (int i = 0; i < l->removed_count; i++)
        if (str_eq(l->removed[i].name, name))
            return &l->removed[i];
    return NULL;
}

// ---- parsing

static bool is_name(const char *name)
{
    static const char ALLOWED[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._@-";
    size_t len = strlen(name);
    return len > 0 && len <= TOKEN_NAME_MAX && strspn(name, ALLOWED) == len;
}

static int check_name(const char *name, struct err *e)
{
    if (is_name(name))
        return 0;
    return err_set(e, ERR_INVALID,
                   "name must be 1 to %d letters, digits, '.', '_', '@' or '-', not \"%.80s\"",
                   TOKEN_NAME_MAX, name);
}

static int check_keys(const json_t *entry, struct err *e)
{
    static const char *const KEYS[] = {
        "name",          "sha256",      "max_sandboxes", "max_memory_mb", "max_cpus",
        "max_snapshots", "max_disk_mb", "max_ports",     "max_builds",    "calls_per_minute",
        "max_timeout",   "expires",     "structured",    "images",        "tiers",
        "created",       "admin"};
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)entry, key, value) {
        bool known = false;
        for (size_t i = 0; i < ARRAY_LEN(KEYS); i++)
            known = known || str_eq(KEYS[i], key);
        if (!known)
            return err_set(e, ERR_INVALID,
                           "unknown key \"%.40s\"; allowed: name, sha256, max_sandboxes, "
                           "max_memory_mb, max_cpus, max_snapshots, max_disk_mb, "
                           "max_ports, max_builds, calls_per_minute, max_timeout, expires, "
                           "structured, images, tiers, created, admin",
                           key);
    }
    return 0;
}

// An absent time leaves *ns as it is.
static int parse_time(const json_t *entry, const char *key, int64_t *ns, struct err *e)
{
    const char *text;
    if (json_get_string(entry, key, &text, NULL, e) < 0)
        return -1;
    if (text && !clock_parse_rfc3339(text, ns))
        return err_set(e, ERR_INVALID,
                       "%s must be a time such as 2027-01-31T12:00:00Z, not \"%.80s\"", key, text);
    return 0;
}

static int parse_limits(const json_t *entry, struct token *t, struct err *e)
{
    const struct {
        const char *key;
        int64_t max, *value;
    } LIMITS[] = {
        {"max_sandboxes", TOKEN_MAX_SANDBOXES, &t->max_sandboxes},
        {"max_memory_mb", TOKEN_MAX_MB, &t->max_memory_mb},
        {"max_cpus", TOKEN_MAX_SANDBOXES, &t->max_cpus},
        {"max_snapshots", TOKEN_MAX_SANDBOXES, &t->max_snapshots},
        {"max_disk_mb", TOKEN_MAX_MB, &t->max_disk_mb},
        {"max_ports", TOKEN_MAX_SANDBOXES, &t->max_ports},
        {"max_builds", TOKEN_MAX_SANDBOXES, &t->max_builds},
        {"calls_per_minute", TOKEN_MAX_CALLS_PER_MINUTE, &t->calls_per_minute},
        {"max_timeout", TOKEN_MAX_TIMEOUT_S, &t->max_timeout_s},
    };
    for (size_t i = 0; i < ARRAY_LEN(LIMITS); i++)
        if (json_get_int(entry, LIMITS[i].key, 0, LIMITS[i].max, LIMITS[i].value, -1, e) < 0)
            return -1;
    t->expires_ns = INT64_MAX;
    if (parse_time(entry, "expires", &t->expires_ns, e) < 0 ||
        parse_time(entry, "created", &t->created_ns, e) < 0)
        return -1;
    return json_get_bool(entry, "admin", &t->admin, false, e);
}

// Set *out to the static text that equals the member; NULL when it is absent.
static int parse_choice(const json_t *entry, const char *key, const char *const *allowed,
                        const char **out, struct err *e)
{
    const char *given;
    if (json_get_string(entry, key, &given, NULL, e) < 0)
        return -1;
    for (*out = NULL; given && *allowed && !*out; allowed++)
        if (str_eq(*allowed, given))
            *out = *allowed;
    if (given && !*out)
        return err_set(e, ERR_INVALID, "%s cannot be \"%.40s\"; see the schema", key, given);
    return 0;
}

static int parse_style(const json_t *entry, struct token *t, struct err *e)
{
    static const char *const STRUCTURED[] = {"on", "off", NULL};
    static const char *const IMAGES[] = {"inline", "path", "off", NULL};
    if (parse_choice(entry, "structured", STRUCTURED, &t->structured, e) < 0)
        return -1;
    return parse_choice(entry, "images", IMAGES, &t->images, e);
}

static bool is_tier(const char *name)
{
    size_t len = name ? strlen(name) : 0;
    return len > 0 && len <= TOKEN_TIER_CHARS &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == len;
}

// An empty list could mean "all" or "none", so it is refused.
static int parse_tiers(const json_t *entry, struct token *t, struct err *e)
{
    const json_t *list = json_object_get(entry, "tiers");
    size_t i, n = 0;
    json_t *item;
    bool ok = !list || (json_is_array(list) && json_array_size(list) > 0 &&
                        json_array_size(list) <= TOKEN_TIERS_MAX);
    json_array_foreach (ok ? (json_t *)(uintptr_t)list : NULL, i, item) {
        const char *name = json_string_value(item);
        ok = ok && is_tier(name);
        if (ok)
            n += (size_t)snprintf(t->tiers + n, sizeof t->tiers - n, "%s%s", n ? "," : "", name);
    }
    return ok ? 0
              : err_set(e, ERR_INVALID, "tiers must be a list of 1 to %d names of tiers",
                        TOKEN_TIERS_MAX);
}

static int parse_entry(const json_t *entry, struct token *t, struct err *e)
{
    const char *name;
    const char *digest;
    if (!json_is_object(entry))
        return err_set(e, ERR_INVALID, "an entry must be an object");
    if (check_keys(entry, e) < 0 || json_get_string(entry, "name", &name, "", e) < 0 ||
        json_get_string(entry, "sha256", &digest, "", e) < 0 || check_name(name, e) < 0)
        return -1;
    memcpy(t->name, name, strlen(name) + 1);
    if (!sha256_from_hex(digest, &t->digest))
        return err_set(e, ERR_INVALID,
                       "sha256 of \"%s\" must be a SHA-256 as %d hexadecimal digits", name,
                       SHA256_HEX_CHARS);
    return parse_limits(entry, t, e) < 0 || parse_tiers(entry, t, e) < 0 ? -1
                                                                         : parse_style(entry, t, e);
}

// Return the line on which entry `n` (from 0) begins, which jansson does not tell.
static int line_of(const char *text, size_t len, size_t n)
{
    int line = 1;
    int depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (c == '\n')
            line++;
        else if (c == '"')
            in_string = !in_string;
        else if (in_string)
            i += c == '\\';
        else if (c == '}' || c == ']')
            depth--;
        else if ((c == '{' || c == '[') && ++depth == 3 && n-- == 0)
            break;
    }
    return line;
}

static const struct token *find_twin(const struct token_list *l, const struct token *t)
{
    for (int i = 0; i < l->count; i++)
        if (str_eq(l->items[i].name, t->name) || sha256_equal(&l->items[i].digest, &t->digest))
            return &l->items[i];
    return NULL;
}

static int parse_entries(const json_t *entries, const char *text, size_t len,
                         struct token_list *out, struct err *e)
{
    if (json_array_size(entries) > TOKENS_MAX)
        return err_set(e, ERR_INVALID, "more than %d entries", TOKENS_MAX);
    out->items = xcalloc(json_array_size(entries) + 1, sizeof *out->items);
    size_t i;
    json_t *entry;
    json_array_foreach (entries, i, entry) {
        struct token *t = &out->items[out->count];
        const struct token *twin = NULL;
        if (parse_entry(entry, t, e) == 0 && (twin = find_twin(out, t)))
            err_set(e, ERR_INVALID, "\"%s\" has the same name or hash as \"%s\" before it", t->name,
                    twin->name);
        if (err_is(e))
            return err_wrap(e, "line %d", line_of(text, len, i));
        out->count++;
    }
    return 0;
}

static int parse_removal(const char *name, const json_t *at, struct token_removal *r, struct err *e)
{
    if (check_name(name, e) < 0)
        return -1;
    if (!json_is_string(at) || !clock_parse_rfc3339(json_string_value(at), &r->at_ns))
        return err_set(e, ERR_INVALID, "\"%s\" needs a time such as 2027-01-31T12:00:00Z", name);
    memcpy(r->name, name, strlen(name) + 1);
    return 0;
}

static int parse_removed(const json_t *document, struct token_list *out, struct err *e)
{
    const json_t *removed = json_object_get(document, REMOVED);
    const char *name;
    json_t *at;
    if (!removed)
        return 0;
    if (!json_is_object(removed) || json_object_size(removed) > TOKENS_MAX)
        return err_set(e, ERR_INVALID, REMOVED " must be an object of at most %d names and times",
                       TOKENS_MAX);
    out->removed = xcalloc(json_object_size(removed) + 1, sizeof *out->removed);
    json_object_foreach ((json_t *)(uintptr_t)removed, name, at) {
        if (parse_removal(name, at, &out->removed[out->removed_count], e) < 0)
            return err_wrap(e, REMOVED);
        out->removed_count++;
    }
    return 0;
}

// Return the array of tokens in the document, borrowed; NULL with an error.
static const json_t *find_entries(const json_t *document, struct err *e)
{
    const json_t *entries = json_object_get(document, "tokens");
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)document, key, value) {
        if (!str_eq(key, "tokens") && !str_eq(key, REMOVED) && !str_eq(key, "$schema")) {
            err_set(e, ERR_INVALID, "unknown key \"%.40s\"; allowed: tokens, " REMOVED, key);
            return NULL;
        }
    }
    if (!json_is_array(entries))
        err_set(e, ERR_INVALID, "it must be {\"tokens\": [ ... ]}");
    return json_is_array(entries) ? entries : NULL;
}

int token_list_parse(const char *text, size_t len, struct token_list *out, struct err *e)
{
    struct err first = ERR_INIT;
    *out = (struct token_list){0};
    json_t *document = json_parse(text, len, &first);
    const json_t *entries = document ? find_entries(document, &first) : NULL;
    // The removals come first: line_of counts levels, and valid removals add none.
    if (!entries || parse_removed(document, out, &first) < 0 ||
        parse_entries(entries, text, len, out, &first) < 0) {
        token_list_fini(out);
        err_set(e, first.code, "%s", first.msg);
    }
    json_decref(document);
    return err_is(&first) ? -1 : 0;
}

// ---- reading

static int check_writers(const char *path, const struct stat *st, struct err *e)
{
    if (st->st_uid != geteuid() && st->st_uid != 0)
        return err_set(e, ERR_DENIED,
                       "%s belongs to another user (%u), who could add entries; chown it", path,
                       st->st_uid);
    if (st->st_mode & (S_IWGRP | S_IWOTH))
        return err_set(e, ERR_DENIED, "%s can be written by others; chmod go-w it", path);
    return 0;
}

int token_file_read(const char *path, struct token_list *out, struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    struct stat st;
    *out = (struct token_list){0};
    if (stat(path, &st) < 0)
        return err_sys(e, errno, "open %s", path);
    if (check_writers(path, &st, e) < 0 || file_read(path, FILE_BYTES_MAX, &text, e) < 0)
        return -1;
    return token_list_parse(buf_str(&text), text.len, out, e) < 0 ? err_wrap(e, "%s", path) : 0;
}

// ---- adding and removing

// Lock out other writers while the file is read and replaced, so that no change is lost. The lock
// is on the directory, because the file is replaced. Return a descriptor with the lock, or -1.
static int lock_folder(const char *path, struct err *e)
{
    char *folder auto_free = xstrdup(path);
    char *slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder] = '\0';
    int fd = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX) < 0)
        err_sys(e, errno, "lock the directory of %s", path);
    if (fd >= 0 && err_is(e))
        close(steal_fd(&fd));
    return fd;
}

static json_t *load(const char *path, bool exists, struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    struct token_list list = {0};
    if (!exists)
        return json_pack("{s:[]}", "tokens");
    if (token_file_read(path, &list, e) < 0 || file_read(path, FILE_BYTES_MAX, &text, e) < 0)
        return NULL;
    token_list_fini(&list);
    return json_parse(buf_str(&text), text.len, e);
}

// Return the index of the entry with this name, or -1.
static int index_of(const json_t *entries, const char *name)
{
    size_t i;
    json_t *entry;
    json_array_foreach ((json_t *)(uintptr_t)entries, i, entry) {
        if (str_eq(json_string_value(json_object_get(entry, "name")), name))
            return (int)i;
    }
    return -1;
}

json_t *token_tiers_to_json(const char *tiers)
{
    char *copy auto_free = xstrdup(tiers);
    char *rest = copy;
    json_t *list = json_array();
    for (char *name; (name = strsep(&rest, ","));)
        json_array_append_new(list, json_string(name));
    return list;
}

// Set the member of a new entry, and check it as a reader of the file does.
static int set_tiers(json_t *entry, const char *tiers, struct err *e)
{
    struct token unused = {0};
    json_object_set_new(entry, "tiers", token_tiers_to_json(tiers));
    return parse_tiers(entry, &unused, e);
}

static int append(json_t *document, const char *name, const char *token,
                  const struct token_wish *wish, struct err *e)
{
    json_t *entries = json_object_get(document, "tokens");
    if (index_of(entries, name) >= 0)
        return err_set(e, ERR_EXISTS, "the name \"%s\" is taken; choose another", name);
    if (json_array_size(entries) >= TOKENS_MAX)
        return err_set(e, ERR_LIMIT, "the file has %d entries, which is the limit", TOKENS_MAX);
    struct sha256 digest = sha256_of(token, strlen(token));
    char hex[SHA256_HEX_CHARS + 1];
    hex_encode(hex, digest.bytes, sizeof digest.bytes);
    char now[CLOCK_RFC3339_BYTES];
    clock_rfc3339(now, clock_wall_ns() / 1000000000 * 1000000000);
    json_t *entry = json_pack("{s:s, s:s, s:s}", "name", name, "sha256", hex, "created", now);
    for (size_t i = 0; i < wish->count; i++)
        if (wish->limits[i].value >= 0)
            json_object_set_new(entry, wish->limits[i].key, json_integer(wish->limits[i].value));
    if (wish->admin)
        json_object_set_new(entry, "admin", json_true());
    json_array_append_new(entries, entry);
    return wish->tiers ? set_tiers(entry, wish->tiers, e) : 0;
}

static int store(const char *path, const json_t *document, const struct stat *old, struct err *e)
{
    char *text auto_free = json_dumps(document, JSON_INDENT(2));
    struct buf out auto_buf = BUF_INIT;
    buf_printf(&out, "%s\n", text);
    mode_t mode = old ? old->st_mode & 0777 : NEW_FILE_MODE;
    if (file_write_atomic(path, out.data, out.len, mode, e) < 0)
        return -1;
    // When root adds a token to the file of a service, the service must still be able to read it.
    if (old && old->st_uid != geteuid() && chown(path, old->st_uid, old->st_gid) < 0)
        return err_sys(e, errno, "give %s back to its owner", path);
    return 0;
}

char *token_file_add(const char *path, const char *name, const struct token_kind *kind,
                     struct err *e)
{
    return token_file_add_limited(path, name, kind, &(struct token_wish){0}, e);
}

char *token_file_add_limited(const char *path, const char *name, const struct token_kind *kind,
                             const struct token_wish *wish, struct err *e)
{
    struct stat st;
    if (check_name(name, e) < 0)
        return NULL;
    int lock auto_close = lock_folder(path, e);
    if (lock < 0)
        return NULL;
    bool exists = stat(path, &st) == 0;
    char *random auto_free = random_hex(kind->random_bytes);
    char *token auto_free = str_printf("%s%s", kind->prefix, random);
    json_t *document = load(path, exists, e);
    bool ok = document && append(document, name, token, wish, e) == 0 &&
              store(path, document, exists ? &st : NULL, e) == 0;
    json_decref(document);
    return ok ? steal(&token) : NULL;
}

static void drop_oldest(json_t *removed)
{
    const char *name, *oldest = NULL;
    int64_t first = INT64_MAX, at_ns;
    json_t *at;
    json_object_foreach (removed, name, at) {
        if (clock_parse_rfc3339(json_string_value(at), &at_ns) && at_ns < first) {
            first = at_ns;
            oldest = name;
        }
    }
    if (oldest)
        json_object_del(removed, oldest);
}

// Readers carry out a removal whose time is later than the one that they know. So the time must
// grow, also when the clock was set back or belongs to another host.
static int note_removal(json_t *document, const char *name, struct err *e)
{
    char text[CLOCK_RFC3339_BYTES];
    int64_t before, now = clock_wall_ns();
    json_t *removed = json_object_get(document, REMOVED);
    if (!removed) {
        removed = json_object();
        json_object_set_new(document, REMOVED, removed);
    }
    const char *known = json_string_value(json_object_get(removed, name));
    if (known && clock_parse_rfc3339(known, &before) && now <= before &&
        __builtin_add_overflow(before, 1, &now))
        return err_set(e, ERR_INVALID, REMOVED ": no time is later than that of \"%s\"", name);
    if (!known && json_object_size(removed) >= TOKENS_MAX)
        drop_oldest(removed);
    clock_rfc3339(text, now);
    json_object_set_new(removed, name, json_string(text));
    return 0;
}

int token_file_remove(const char *path, const char *name, bool keep, struct err *e)
{
    struct stat st;
    int lock auto_close = lock_folder(path, e);
    if (lock < 0)
        return -1;
    bool exists = stat(path, &st) == 0;
    json_t *document = load(path, exists, e);
    json_t *entries = json_object_get(document, "tokens");
    int at = index_of(entries, name);
    int result = -1;
    if (document && at < 0)
        err_set(e, ERR_NOT_FOUND, "the name \"%.80s\" is not in the file", name);
    else if (document && (keep || note_removal(document, name, e) == 0) &&
             json_array_remove(entries, (size_t)at) == 0)
        result = store(path, document, &st, e);
    json_decref(document);
    return result;
}
