// SPDX-License-Identifier: Apache-2.0
// The names of a mounted directory that the guest's kernel knows.
#include "sandbox-backend/guest/mountfs/node.h"

#include <string.h>

#include "sandbox-backend/base/mem.h"

#define BUCKETS 16384u // a power of two

// In mount_entry.reserved of a list: what is known of a name after a change.
enum { ENTRY_OLD = 1, ENTRY_GONE = 2 };

static LIST_HEAD(bucket, node) table[BUCKETS];
static struct node root = {.lookups = 1};

struct node *node_root(void)
{
    return &root;
}

static uint32_t hash_name(const char *name, size_t len)
{
    uint32_t h = 2166136261u; // FNV-1a
    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)name[i]) * 16777619u;
    return h;
}

static struct bucket *bucket_of(const struct node *parent, const char *name)
{
    uint32_t h = hash_name(name, strlen(name)) ^ (uint32_t)((uintptr_t)parent >> 4);
    return &table[h & (BUCKETS - 1)];
}

struct node *node_find(const struct node *parent, const char *name)
{
    struct node *n;
    LIST_FOREACH (n, bucket_of(parent, name), link)
        if (n->parent == parent && strcmp(n->name, name) == 0)
            return n;
    return NULL;
}

static void put_at(struct node *n, struct node *parent, const char *name)
{
    n->parent = parent;
    n->name = xstrdup(name);
    parent->children++;
    LIST_INSERT_HEAD(bucket_of(parent, name), n, link);
}

struct node *node_get(struct node *parent, const char *name)
{
    struct node *n = node_find(parent, name);
    if (n)
        return n;
    n = xcalloc(1, sizeof *n);
    put_at(n, parent, name);
    return n;
}

// ---- references

static void drop_list(struct node *n)
{
    free(steal(&n->list.data));
    free(steal(&n->list.slots));
}

// Take a node's name away. Its parent may be free then.
static void take_off(struct node *n, struct node **parent)
{
    *parent = steal(&n->parent);
    if (!*parent)
        return;
    LIST_REMOVE(n, link);
    free(steal(&n->name));
    (*parent)->children--;
}

static void free_unused(struct node *n)
{
    while (n && n != &root && !n->lookups && !n->children && !n->uses) {
        struct node *parent;
        take_off(n, &parent);
        drop_list(n);
        free(n);
        n = parent;
    }
}

void node_ref(struct node *n)
{
    n->uses++;
}

void node_unref(struct node *n)
{
    n->uses--;
    free_unused(n);
}

void node_look(struct node *n)
{
    n->lookups++;
}

void node_forget(struct node *n, uint64_t lookups)
{
    n->lookups -= lookups < n->lookups ? lookups : n->lookups;
    if (n == &root)
        n->lookups = 1;
    free_unused(n);
}

// ---- changes of names

void node_remove(struct node *parent, const char *name)
{
    struct node *n = node_find(parent, name), *was;
    if (!n)
        return;
    take_off(n, &was);
    free_unused(n);
    free_unused(was);
}

void node_move(struct node *parent, const char *name, struct node *to, const char *new_name)
{
    struct node *n = node_find(parent, name), *was;
    node_remove(to, new_name);
    if (!n)
        return;
    take_off(n, &was);
    put_at(n, to, new_name);
    free_unused(was);
}

void node_exchange(struct node *parent, const char *name, struct node *to, const char *new_name)
{
    struct node *a = node_find(parent, name), *b = node_find(to, new_name), *was;
    if (a)
        take_off(a, &was);
    if (b)
        take_off(b, &was);
    if (a)
        put_at(a, to, new_name);
    if (b)
        put_at(b, parent, name);
}

// Put a name before what the text holds from *at on.
static bool put_before(char text[PATH_MAX], size_t *at, const char *name)
{
    size_t len = strlen(name), slash = text[*at] != '\0';
    if (len + slash > *at)
        return false;
    if (slash)
        text[--*at] = '/';
    *at -= len;
    memcpy(text + *at, name, len);
    return true;
}

bool node_path(const struct node *n, const char *name, char out[PATH_MAX])
{
    char text[PATH_MAX];
    size_t at = sizeof text - 1;
    text[at] = '\0';
    if (name && !put_before(text, &at, name))
        return false;
    for (; n != &root; n = n->parent)
        if (!n->parent || !put_before(text, &at, n->name))
            return false;
    memcpy(out, text + at, sizeof text - at);
    return true;
}

// ---- lists

static const struct mount_entry *entry_at(const struct node_list *l, size_t at, const char **name)
{
    const struct mount_entry *entry = (const void *)(l->data + at);
    *name = l->data + at + sizeof *entry;
    return entry;
}

// Return the entry of a name, or NULL.
static struct mount_entry *find_entry(const struct node_list *l, const char *name)
{
    const char *other;
    size_t len = strlen(name);
    if (!l->slots)
        return NULL;
    for (uint32_t slot = hash_name(name, len) & l->mask; l->slots[slot];
         slot = (slot + 1) & l->mask) {
        size_t at = l->slots[slot] - 1;
        const struct mount_entry *entry = entry_at(l, at, &other);
        if (entry->name_len == len && memcmp(other, name, len) == 0)
            return (struct mount_entry *)(void *)(l->data + at);
    }
    return NULL;
}

void node_changed(struct node *n)
{
    n->generation++;
    if (n->parent)
        node_changed_name(n->parent, n->name, false);
}

void node_changed_name(struct node *parent, const char *name, bool gone)
{
    struct mount_entry *entry = find_entry(&parent->list, name);
    parent->generation++;
    if (entry)
        entry->reserved = gone ? ENTRY_GONE : ENTRY_OLD;
    else if (!gone)
        parent->list.all = false;
}

static void index_entries(struct node_list *l, size_t count)
{
    const char *name;
    for (l->mask = 15; l->mask < 2 * count; l->mask = l->mask * 2 + 1)
        ;
    l->slots = xcalloc(l->mask + 1, sizeof *l->slots);
    for (size_t at = 0; at < l->len;) {
        const struct mount_entry *entry = entry_at(l, at, &name);
        uint32_t slot = hash_name(name, entry->name_len) & l->mask;
        while (l->slots[slot])
            slot = (slot + 1) & l->mask;
        l->slots[slot] = (uint32_t)at + 1;
        at += sizeof *entry + mount_padded(entry->name_len);
    }
}

// The host is trusted with the guest's files, but not to be free of faults.
static bool count_entries(const char *data, size_t len, size_t *count)
{
    struct mount_entry entry;
    size_t at = 0;
    for (*count = 0; len - at >= sizeof entry; ++*count) {
        memcpy(&entry, data + at, sizeof entry);
        size_t whole = sizeof entry + mount_padded(entry.name_len);
        if (entry.name_len > NAME_MAX || len - at < whole)
            return false;
        at += whole;
    }
    return at == len;
}

void node_set_list(struct node *n, const char *data, size_t len, bool all, int64_t now_ms)
{
    size_t count;
    drop_list(n);
    if (!count_entries(data, len, &count))
        return;
    n->list = (struct node_list){
        .data = xmemdup(data, len ? len : 1), .len = len, .all = all, .at_ms = now_ms};
    index_entries(&n->list, count);
}

int node_peek(const struct node *n, const char *name, int64_t now_ms, struct mount_facts *out)
{
    const struct node_list *l = &n->list;
    if (!l->slots || now_ms - l->at_ms >= NODE_FRESH_MS)
        return -1;
    const struct mount_entry *entry = find_entry(l, name);
    if (!entry)
        return l->all ? 0 : -1;
    *out = entry->attr;
    return entry->reserved == ENTRY_GONE ? 0 : entry->reserved == ENTRY_OLD ? -1 : 1;
}
