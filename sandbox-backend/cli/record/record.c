// SPDX-License-Identifier: Apache-2.0
// cubby record: what was done in a sandbox, line by line, also after its end.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/visible.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/connection.h"
#include "sandbox-backend/cli/record/record_lines.h"

#define EVERY_MS 500
#define FILE_MAX ((size_t)1 << 30) // of an exported record
#define CALL_MAX INT64_MAX

struct record_opts {
    const char *export, *cast, *from, *hash;
    int64_t call;
    bool as_json, follows, verifies;
};

struct reader {
    const struct record_opts *o;
    struct record_check check;
    struct buf all; // owned; with --cast
    int fd;         // of --export; -1: none
    int64_t n;      // of the last line
};

// ---- a line

static void show(const char *bytes, size_t len, const struct record_opts *o)
{
    json_t *line = json_parse(bytes, len, NULL);
    if (!line)
        return;
    if (o->as_json) {
        char *text auto_free = xstrndup(bytes, len);
        char *safe auto_free = visible_json(text); // the same value, and safe for a terminal
        printf("%s\n", isatty(STDOUT_FILENO) ? safe : text);
    } else {
        record_show_line(line);
    }
    json_decref(line);
}

static int64_t number_of(const char *bytes, size_t len)
{
    json_t *line = json_parse(bytes, len, NULL);
    int64_t n = json_integer_value(json_object_get(line, "n"));
    json_decref(line);
    return n;
}

static bool is_plain(const struct record_opts *o)
{
    return !o->verifies && !o->export && !o->cast;
}

// Take lines that came. Return -1 with `e` if one does not fit, or cannot be written.
static int take(struct reader *r, const struct buf *lines, struct err *e)
{
    const char *at = buf_str(lines);
    if (r->fd >= 0 && fd_write_all(r->fd, lines->data, lines->len, e) < 0)
        return err_wrap(e, "%s", r->o->export);
    if (r->o->cast)
        buf_add(&r->all, lines->data, lines->len);
    for (const char *end; (end = strchr(at, '\n')); at = end + 1) {
        size_t len = (size_t)(end - at);
        int64_t n = number_of(at, len);
        r->n = n ? n : r->n;
        if (r->o->verifies && record_check_line(&r->check, at, len, e) < 0)
            return -1;
        if (is_plain(r->o))
            show(at, len, r->o);
    }
    return 0;
}

// ---- where the lines come from

// Read until there are no more. Return -1 with `e`.
static int read_all(struct connection *c, const char *id, struct reader *r, struct err *e)
{
    for (;;) {
        struct buf lines auto_buf = BUF_INIT;
        int64_t before = r->n;
        if (connection_record(c, id, r->n, &lines, e) < 0 || take(r, &lines, e) < 0)
            return -1;
        if (!lines.len || r->n == before)
            return 0;
    }
}

static bool still_exists(struct connection *c, const char *id)
{
    struct err e = ERR_INIT;
    json_t *info = connection_get(c, id, &e);
    json_decref(info);
    return info;
}

// A sandbox that has ended gets no more lines, so it is read once more after it was found missing.
static int follow(struct connection *c, const char *id, struct reader *r, struct err *e)
{
    bool exists = true;
    while (exists && fflush(stdout) == 0) {
        poll(NULL, 0, EVERY_MS);
        exists = client_is_there(c->client) && still_exists(c, id);
        if (read_all(c, id, r, e) < 0)
            return -1;
    }
    return 0;
}

static int read_from_daemon(const struct backend_opts *server, const char *given, struct reader *r,
                            struct err *e)
{
    struct connection c;
    if (connection_open(&c, server, CONNECT_STARTS, e) < 0)
        return -1;
    char *id auto_free = connection_resolve(&c, given, e);
    int result = id ? read_all(&c, id, r, e) : -1;
    if (result == 0 && r->o->follows)
        result = follow(&c, id, r, e);
    connection_close(&c);
    return result;
}

static int read_from_file(struct reader *r, struct err *e)
{
    struct buf lines auto_buf = BUF_INIT;
    if (file_read(r->o->from, FILE_MAX, &lines, e) < 0 || take(r, &lines, e) < 0)
        return -1;
    if (lines.len && lines.data[lines.len - 1] != '\n')
        return err_set(e, ERR_INVALID, "the last line of %s is not complete", r->o->from);
    return 0;
}

// ---- the verb

// Never over a file that exists. A record may hold what only its reader may see.
static int create(const char *path)
{
    return open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
}

static int write_cast(const struct reader *r, struct err *e)
{
    int fd auto_close = create(r->o->cast);
    FILE *to = fd < 0 ? NULL : fdopen(fd, "w");
    if (!to)
        return err_sys(e, errno, "create %s", r->o->cast);
    // The stream has it. NOLINTNEXTLINE(clang-analyzer-deadcode.DeadStores): auto_close reads it.
    fd = -1;
    int result = record_cast(&r->all, r->o->call, to, e);
    bool failed = ferror(to);
    if (fclose(to) != 0 || failed)
        result = err_set(e, ERR_NO_SPACE, "%s could not be written", r->o->cast);
    if (result < 0)
        unlink(r->o->cast);
    return result;
}

static int finish(struct reader *r, struct err *e)
{
    if (r->o->cast)
        return write_cast(r, e);
    if (!r->o->verifies)
        return 0;
    if (record_check_end(&r->check, e) < 0)
        return -1;
    record_check_print(&r->check);
    return 0;
}

static int run(const struct backend_opts *server, const char *id, const struct record_opts *o)
{
    struct err e = ERR_INIT;
    struct reader r = {.o = o, .fd = -1, .check = {.wanted = o->hash}};
    if (o->export)
        r.fd = create(o->export);
    if (o->export && r.fd < 0)
        err_sys(&e, errno, "create %s", o->export);
    int result = err_is(&e) ? -1
                 : o->from  ? read_from_file(&r, &e)
                            : read_from_daemon(server, id, &r, &e);
    if (result == 0)
        result = finish(&r, &e);
    if (r.fd >= 0 && result < 0)
        unlink(o->export);
    mem_close_fd(&r.fd);
    buf_fini(&r.all);
    record_check_fini(&r.check);
    return result < 0 ? cli_fail(&e) : 0;
}

static const char *wrong(const struct record_opts *o, int count)
{
    if (o->from ? count != 1 : count != 2)
        return o->from ? "record takes no id with --from" : "record takes the id of one sandbox";
    if (!!o->export + !!o->cast + o->verifies + o->as_json > 1)
        return "--json, --export, --cast and --verify exclude each other";
    if (o->follows && (o->from || !is_plain(o)))
        return "--follow goes with --json only";
    if (o->call && !o->cast)
        return "--call goes with --cast";
    return o->hash && !o->verifies ? "--hash goes with --verify" : NULL;
}

int verb_record(int argc, char **argv)
{
    struct backend_opts server = {0};
    struct record_opts o = {0};
    const struct opt opts[] = {
        CLI_FLAG("json", &o.as_json, "print the lines as the record has them"),
        CLI_FLAG("follow", &o.follows, "print new lines until the sandbox ends"),
        CLI_STRING("export", &o.export, "FILE", "write the lines to a new file"),
        CLI_STRING("cast", &o.cast, "FILE", "write a terminal session to a new file (asciicast)"),
        CLI_INT("call", &o.call, "N", 1, CALL_MAX,
                "with --cast: the line of the terminal (the last)"),
        CLI_FLAG("verify", &o.verifies, "check that each line fits the one before"),
        CLI_STRING("hash", &o.hash, "HASH", "with --verify: a line must have this hash"),
        CLI_STRING("from", &o.from, "FILE", "read lines that --export wrote, not a sandbox's"),
    };
    const struct cli_usage usage = {
        .synopsis = "record [OPTIONS] ID",
        .text = "Shows what was done in a sandbox: commands, code, files, terminals, ports, what "
                "the network\nrefused and allowed, and by whom. Works for some days after the "
                "sandbox's end, with\nits whole id.",
        .opts = opts,
        .opt_count = ARRAY_LEN(opts),
        .server = &server,
    };
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    const char *why = wrong(&o, argc);
    return why ? cli_usage_error("%s", why) : run(&server, argv[1], &o);
}
