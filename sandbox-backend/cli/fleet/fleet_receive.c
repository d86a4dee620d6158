// SPDX-License-Identifier: Apache-2.0
// cubby fleet receive: take a sandbox from another node.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/sandbox_id.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/version.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/connection.h"
#include "sandbox-backend/cli/fleet/fleet.h"
#include "sandbox-backend/drivers/host/tool.h"
#include "sandbox-backend/template/move/sandbox_archive.h"

enum outcome {
    TAKEN,
    REFUSED, // it is not here
    UNREAD,  // this command has not taken it; an earlier one may have
    UNKNOWN, // it may be here
};

// Of two commands for one sandbox, the second waits for the first: else a refusal of one could come
// before the success of the other.
static int lock_one(const char *home, const char *id, struct err *e)
{
    char *dir auto_free = str_printf("%s/cache", home);
    char *path auto_free = str_printf("%s/receive-%s.lock", dir, id);
    if (dir_make(dir, 0700, e) < 0)
        return -1;
    int fd auto_close = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || flock(fd, LOCK_EX) < 0)
        return err_sys(e, errno, "lock %s", path);
    unlink(path); // one that waited for this file locks it all the same, and is the last
    return steal_fd(&fd);
}

// The daemon did not answer, so it may have taken the sandbox.
static bool is_unanswered(const struct err *e)
{
    return e->code == ERR_UNAVAILABLE || e->code == ERR_TIMEOUT || e->code == ERR_CANCELED ||
           e->code == ERR_REFUSED;
}

static int sync_one(const char *path, struct err *e)
{
    int fd auto_close = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 || fsync(fd) < 0 ? err_sys(e, errno, "sync %s", path) : 0;
}

int fleet_sync(const char *path, struct err *e)
{
    char *parent auto_free = xstrndup(path, (size_t)(strrchr(path, '/') - path));
    return sync_one(path, e) < 0 ? -1 : sync_one(parent, e);
}

static enum outcome take(struct connection *c, const char *id, bool wake, struct err *e)
{
    struct sandbox_arrival a;
    enum outcome result = REFUSED;
    tool_watch_signals();
    if (sandbox_archive_read(&a, c->home, id, "/dev/stdin", e) == 0) {
        json_t *answer = connection_arrive(c, id, str_base(a.dir), wake, e);
        result = answer ? TAKEN : is_unanswered(e) ? UNKNOWN : REFUSED;
        json_decref(answer);
        char *place auto_free = str_printf("%s/sandboxes/%s", c->home, id);
        if (result == TAKEN && fleet_sync(place, e) < 0)
            result = UNKNOWN;
    }
    tool_unwatch_signals();
    sandbox_arrival_fini(&a);
    return result;
}

static enum outcome receive(struct connection *c, const char *id, bool wake, struct err *e)
{
    struct err absent = ERR_INIT;
    int lock auto_close = lock_one(c->home, id, e);
    if (lock < 0)
        return UNREAD;
    json_t *here = connection_arrive(c, id, NULL, false, &absent);
    json_decref(here);
    if (here)
        return TAKEN; // by an earlier command
    if (absent.code == ERR_NOT_FOUND)
        return take(c, id, wake, e);
    *e = absent;
    return UNREAD;
}

static int answer(enum outcome result, const struct err *e)
{
    if (result == UNKNOWN)
        return cli_fail(e);
    json_t *text = result == TAKEN ? json_pack("{s:b}", "taken", 1)
                                   : json_pack("{s:b, s:b, s:s}", "taken", 0, "absent",
                                               (int)(result == REFUSED), "why", e->msg);
    cli_print_json(text);
    json_decref(text);
    return result == TAKEN ? 0 : 1;
}

int fleet_receive(const char *id, bool wake)
{
    struct err e = ERR_INIT;
    struct connection c;
    const struct backend_opts local = {.backend = "local"};
    if (!sandbox_id_is_valid(id))
        return cli_usage_error("fleet receive takes the id of one sandbox");
    if (connection_open(&c, &local, CONNECT_NEVER_STARTS, &e) < 0)
        return answer(UNREAD, &e);
    enum outcome result = receive(&c, id, wake, &e);
    connection_close(&c);
    return answer(result, &e);
}

// ---- the question before it

static int check_node(struct connection *c, const char *node, struct err *e)
{
    if (fleet_check_here(c, node, e) < 0)
        return -1;
    json_t *health = connection_health(c, e);
    bool draining = json_is_true(json_object_get(health, "draining"));
    json_decref(health);
    return !health ? -1 : draining ? err_set(e, ERR_BUSY, "it is being drained itself") : 0;
}

int fleet_receive_check(const char *node)
{
    struct err e = ERR_INIT;
    struct connection c;
    const struct backend_opts local = {.backend = "local"};
    int result = connection_open(&c, &local, CONNECT_NEVER_STARTS, &e);
    if (result == 0) {
        result = check_node(&c, node, &e);
        connection_close(&c);
    }
    json_t *text = result == 0 ? json_pack("{s:b, s:i, s:s}", "ready", 1, "format",
                                           SANDBOX_ARCHIVE_FORMAT, "version", CUBBY_VERSION)
                               : json_pack("{s:b, s:s}", "ready", 0, "why", e.msg);
    cli_print_json(text);
    json_decref(text);
    return result == 0 ? 0 : 1;
}
