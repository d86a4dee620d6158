// SPDX-License-Identifier: Apache-2.0
// The file with the nodes of a fleet.
#include "sandbox-backend/base/nodes_file.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define FILE_BYTES 65536
#define WORDS_MAX  5
#define NAME_CHARS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// Return whether it is a host name without a dot at its end, an IPv4 address, or "[IPv6]".
static bool is_host(const char *host)
{
    struct in6_addr six;
    size_t len = strlen(host);
    if (*host == '[' && len > 2 && host[len - 1] == ']') {
        char *inside auto_free = xstrndup(host + 1, len - 2);
        return inet_pton(AF_INET6, inside, &six) == 1;
    }
    for (;;) {
        size_t label = strspn(host, NAME_CHARS);
        if (label == 0 || !host[label])
            return label > 0;
        if (host[label] != '.')
            return false;
        host += label + 1;
    }
}

// Check "HOST:PORT". The characters matter, because the address goes into a proxy's configuration.
static int check_address(const char *text, struct err *e)
{
    const char *colon = strrchr(text, ':');
    int64_t port = 0;
    if (!colon || colon == text || !str_to_int(colon + 1, 1, 65535, &port))
        return err_set(e, ERR_INVALID, "\"%.80s\" is not of the form HOST:PORT", text);
    char *host auto_free = xstrndup(text, (size_t)(colon - text));
    if (is_host(host))
        return 0;
    return err_set(e, ERR_INVALID,
                   "\"%.80s\" is not of the form HOST:PORT: the host is not a host name, an IPv4 "
                   "address or [IPv6 address]",
                   text);
}

static int read_url(struct node *n, const char *url, struct err *e)
{
    n->tls = str_starts(url, "https://");
    const char *rest = n->tls ? url + 8 : str_starts(url, "http://") ? url + 7 : NULL;
    if (!rest)
        return err_set(e, ERR_INVALID, "\"%.80s\" does not begin with http:// or https://", url);
    size_t len = strlen(rest);
    n->address = xstrndup(rest, len && rest[len - 1] == '/' ? len - 1 : len);
    n->url = str_printf("%s://%s", n->tls ? "https" : "http", n->address);
    return check_address(n->address, e);
}

static int read_name(char out[NODE_NAME_MAX + 1], const char *name, struct err *e)
{
    if (!node_name_is_valid(name))
        return err_set(
            e, ERR_INVALID,
            "\"%.40s\" is not a node's name: it has 1 to %d lower-case letters and digits", name,
            NODE_NAME_MAX);
    snprintf(out, NODE_NAME_MAX + 1, "%s", name);
    return 0;
}

static int err_twice(const char *word, struct err *e)
{
    return err_set(e, ERR_INVALID, "the word %.*s is given twice", (int)strcspn(word, "=") + 1,
                   word);
}

static int read_option(struct node *n, const char *word, struct err *e)
{
    if (str_starts(word, "agent=")) {
        if (n->agent)
            return err_twice(word, e);
        n->agent = xstrdup(word + 6);
        return check_address(n->agent, e);
    }
    if (str_starts(word, "moved="))
        return *n->moved ? err_twice(word, e) : read_name(n->moved, word + 6, e);
    if (str_starts(word, "then="))
        return *n->then ? err_twice(word, e) : read_name(n->then, word + 5, e);
    return err_set(e, ERR_INVALID, "\"%.40s\" is not agent=HOST:PORT, then=NAME or moved=NAME",
                   word);
}

// Split a line at blanks. Return the number of words, WORDS_MAX + 1 if there are more.
static size_t split(char *line, char *words[WORDS_MAX + 1])
{
    size_t count = 0;
    char *rest = line;
    for (char *word; count <= WORDS_MAX && (word = strtok_r(rest, " \t\r", &rest));)
        words[count++] = word;
    return count;
}

// A second name of one daemon would hide a node. The address of a node that was moved may be used
// again.
static int check_url(const struct nodes *nodes, const struct node *n, struct err *e)
{
    for (const struct node *other = nodes->all; other < n; other++)
        if (!*other->moved && !*n->moved && strcasecmp(other->address, n->address) == 0)
            return err_set(e, ERR_INVALID, "nodes \"%s\" and \"%s\" have the same URL", other->name,
                           n->name);
    return 0;
}

static int add_line(struct nodes *out, char *line, struct err *e)
{
    char *words[WORDS_MAX + 1];
    line[strcspn(line, "#")] = '\0';
    size_t count = split(line, words);
    if (count == 0)
        return 0;
    if (count < 2 || count > WORDS_MAX)
        return err_set(e, ERR_INVALID,
                       "a line is: NAME URL [agent=HOST:PORT] [then=NAME] [moved=NAME]");
    if (out->count == NODES_MAX)
        return err_set(e, ERR_INVALID, "there are more than %d nodes", NODES_MAX);
    if (nodes_find(out, words[0]))
        return err_set(e, ERR_INVALID, "node \"%s\" is there twice", words[0]);
    struct node *n = &out->all[out->count++];
    if (read_name(n->name, words[0], e) < 0 || read_url(n, words[1], e) < 0)
        return -1;
    for (size_t i = 2; i < count; i++)
        if (read_option(n, words[i], e) < 0)
            return -1;
    return check_url(out, n, e);
}

// Check that the other node, which a line names, serves sandboxes itself.
static int check_other(const struct nodes *nodes, const struct node *n, const char *option,
                       const char *other, struct err *e)
{
    const struct node *to = nodes_find(nodes, other);
    if (!*other || (to && to != n && !*to->moved))
        return 0;
    return err_set(e, ERR_INVALID,
                   "%s=%s of node \"%s\" does not name another node that was not moved", option,
                   other, n->name);
}

// The proxy asks two nodes at most for one id.
static int check_others(const struct nodes *nodes, const struct node *n, struct err *e)
{
    const struct node *then = nodes_find(nodes, n->then);
    if (check_other(nodes, n, "moved", n->moved, e) < 0 ||
        check_other(nodes, n, "then", n->then, e) < 0)
        return -1;
    if (*n->then && *n->moved)
        return err_set(e, ERR_INVALID,
                       "node \"%s\" has both then= and moved=: keep moved=", n->name);
    if (then && *then->then)
        return err_set(e, ERR_INVALID,
                       "then=%s of node \"%s\" names a node that has a then= itself; end that "
                       "drain first, and write moved= for it",
                       n->then, n->name);
    return 0;
}

int nodes_parse(const char *text, struct nodes *out, struct err *e)
{
    int number = 0;
    char *copy auto_free = xstrdup(text);
    char *rest = copy;
    *out = (struct nodes){0};
    for (char *line; (line = strsep(&rest, "\n"));) {
        number++;
        if (add_line(out, line, e) < 0)
            return err_wrap(e, "line %d", number);
    }
    for (size_t i = 0; i < out->count; i++)
        if (check_others(out, &out->all[i], e) < 0)
            return -1;
    return out->count ? 0 : err_set(e, ERR_INVALID, "it names no node");
}

int nodes_read(const char *path, struct nodes *out, struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    *out = (struct nodes){0};
    if (file_read(path, FILE_BYTES, &text, e) < 0)
        return -1;
    return nodes_parse(buf_str(&text), out, e) < 0 ? err_wrap(e, "%s", path) : 0;
}

void nodes_fini(struct nodes *nodes)
{
    for (size_t i = 0; i < nodes->count; i++) {
        free(nodes->all[i].url);
        free(nodes->all[i].address);
        free(nodes->all[i].agent);
    }
    nodes->count = 0;
}

const struct node *nodes_find(const struct nodes *nodes, const char *name)
{
    for (size_t i = 0; i < nodes->count; i++)
        if (strcmp(nodes->all[i].name, name) == 0)
            return &nodes->all[i];
    return NULL;
}

bool node_is_loopback(const struct node *n)
{
    return str_starts(n->address, "127.") || str_starts(n->address, "[::1]:") ||
           str_starts(n->address, "localhost:");
}
