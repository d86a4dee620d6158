// SPDX-License-Identifier: Apache-2.0
// The node that gets the sandboxes of a drained one: its choice by load, and its name in the list.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/connection.h"
#include "sandbox-backend/cli/fleet/fleet.h"
#include "sandbox-backend/drivers/host/tool.h"

#define LIST_BYTES 65536 // of the file

// ---- the choice

bool fleet_allows(const char *names, const char *node)
{
    char *copy auto_free = names ? xstrdup(names) : NULL;
    char *rest = copy;
    for (char *name; (name = strsep(&rest, ","));)
        if (str_eq(name, node))
            return true;
    return !names;
}

// Return the node's load in percent, or -1: it takes no sandboxes, or does not answer.
static int64_t load_of(const struct node *n, const char *ca, struct err *e)
{
    const struct backend_opts far = {.backend = n->url,
                                     .client = {.dialect = "cubbyd", .ca_file = ca}};
    struct connection c;
    if (connection_open(&c, &far, CONNECT_NEVER_STARTS, e) < 0)
        return -1;
    json_t *health = connection_health(&c, e);
    const json_t *load = json_object_get(health, "load");
    int64_t percent = json_is_integer(load) ? json_integer_value(load) : -1;
    connection_close(&c);
    if (health && !str_eq(json_string_value(json_object_get(health, "node")), n->name))
        percent = err_set(e, ERR_PRECONDITION, "another daemon answers at %s", n->url);
    else if (health && !json_is_true(json_object_get(health, "room")))
        percent = err_set(e, ERR_BUSY, "it is full, or is drained itself");
    else if (health && percent < 0)
        err_set(e, ERR_INTERNAL, "it does not tell its load");
    json_decref(health);
    return percent;
}

int fleet_choose(const struct fleet_drain *o, const struct nodes *nodes, struct node_choice *out,
                 struct err *e)
{
    struct buf why auto_buf = BUF_INIT;
    *out = (struct node_choice){.load = -1};
    for (size_t i = 0; i < nodes->count; i++) {
        const struct node *n = &nodes->all[i];
        struct err no = ERR_INIT;
        if (str_eq(n->name, o->node) || *n->moved || *n->then || !fleet_allows(o->to, n->name))
            continue;
        int64_t load = load_of(n, o->ca, &no);
        if (load < 0)
            buf_printf(&why, "; %s: %.80s", n->name, no.msg);
        else if (!out->node || load < out->load)
            *out = (struct node_choice){.node = n, .load = load};
    }
    if (out->node)
        return 0;
    return err_set(e, ERR_UNAVAILABLE, "no other node of %s can take the sandboxes%s", o->nodes,
                   buf_str(&why));
}

// ---- the list

// Copy a line without the words "then=..." and "moved=...", up to its comment.
static void copy_words(const char *line, size_t len, struct buf *out)
{
    for (size_t i = 0; i < len;) {
        size_t blanks = strspn(line + i, " \t\r"), word = strcspn(line + i + blanks, " \t\r#\n");
        const char *at = line + i + blanks;
        if (!word)
            break;
        if (!str_starts(at, "then=") && !str_starts(at, "moved="))
            buf_add(out, line + i, blanks + word);
        i += blanks + word;
    }
}

static bool is_of(const char *line, const char *node)
{
    const char *at = line + strspn(line, " \t\r");
    size_t len = strcspn(at, " \t\r#\n");
    return len == strlen(node) && strncmp(at, node, len) == 0;
}

// Copy a line. If `word` is "moved=...", nodes that were moved to `node` were moved there with it.
static void copy_line(const char *line, size_t len, const char *node, const char *word,
                      struct buf *out)
{
    char *old auto_free = str_printf("moved=%s", node);
    size_t words = str_starts(word, "moved=") ? strcspn(line, "#\n") : 0;
    for (size_t i = 0; i < words;) {
        size_t blanks = strspn(line + i, " \t\r"), one = strcspn(line + i + blanks, " \t\r#\n");
        const char *at = line + i + blanks;
        bool is_old = one == strlen(old) && strncmp(at, old, one) == 0;
        buf_add(out, line + i, blanks);
        buf_add(out, is_old ? word : at, is_old ? strlen(word) : one);
        i += blanks + one;
    }
    buf_add(out, line + words, len - words);
}

static void edit(const char *text, const char *node, const char *word, struct buf *out)
{
    for (const char *line = text; *line;) {
        size_t len = strcspn(line, "\n"), words = strcspn(line, "#\n");
        if (is_of(line, node)) {
            copy_words(line, words, out);
            buf_printf(out, " %s%s%.*s", word, words < len ? "  " : "", (int)(len - words),
                       line + words);
        } else {
            copy_line(line, len, node, word, out);
        }
        if (line[len])
            buf_addc(out, line[len++]);
        line += len;
    }
}

// Lock the list, so that two drains do not overwrite each other's words. Whoever held the lock
// before may have replaced the file. A file system without locks gives none.
static int lock_list(const char *path, struct err *e)
{
    for (;;) {
        struct stat locked, named;
        int fd auto_close = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &locked) < 0)
            return err_sys(e, errno, "open %s", path);
        while (flock(fd, LOCK_EX) < 0 && errno == EINTR)
            ;
        if (stat(path, &named) == 0 && named.st_ino == locked.st_ino &&
            named.st_dev == locked.st_dev)
            return steal_fd(&fd);
    }
}

// Another drain may have changed the list since the caller has read it.
static int check_edited(const struct buf *edited, const char *path, const char *node,
                        const char *word, struct err *e)
{
    static struct nodes nodes; // too large for the stack
    int result = nodes_parse(buf_str(edited), &nodes, e);
    nodes_fini(&nodes);
    return result < 0 ? err_wrap(e, "%s: %s for node \"%s\" cannot be written", path, word, node)
                      : 0;
}

int fleet_list_set(const char *path, const char *node, const char *word, struct err *e)
{
    struct buf text auto_buf = BUF_INIT, edited auto_buf = BUF_INIT;
    struct stat st;
    int lock auto_close = lock_list(path, e);
    if (lock < 0 || file_read(path, LIST_BYTES, &text, e) < 0)
        return -1;
    edit(buf_str(&text), node, word, &edited);
    if (check_edited(&edited, path, node, word, e) < 0)
        return -1;
    char *real auto_free = realpath(path, NULL); // a link stays one
    if (!real || stat(real, &st) < 0)
        err_sys(e, errno, "%s", path);
    else if (file_write_atomic_like(real, edited.data, edited.len, &st, e) == 0)
        return 0;
    return err_wrap(e, "write %s into the line of \"%s\" yourself, because it cannot be written",
                    word, node);
}

// ---- the command that brings the list to the proxy and the nodes

int fleet_reload(const char *command, struct err *e)
{
    const char *argv[] = {"sh", "-c", command, NULL};
    const struct tool tool = {.argv = argv, .package = "dash", .out = 2, .log = 2, .keep = -1};
    return tool_run(&tool, e) == 0 ? 0 : err_wrap(e, "--reload");
}
