// SPDX-License-Identifier: Apache-2.0
// Spares: which templates have one, and for how long.
#include "sandbox-backend/drivers/host/spares.h"

#include <stdlib.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/host/host_jail.h"
#include "sandbox-backend/host/meminfo.h"
#include "sandbox-backend/log/log.h"
#include "sandbox-backend/net/deadline.h"

struct spare_shelf {
    TAILQ_ENTRY(spare_shelf) link;
    struct spares *of;
    char *template; // owned
    int64_t used_ms;
    struct deadline look;
};

static void on_look_closed(struct deadline *d)
{
    struct spare_shelf *shelf = container_of(d, struct spare_shelf, look);
    free(shelf->template);
    free(shelf);
}

static void remove_shelf(struct spare_shelf *shelf)
{
    TAILQ_REMOVE(&shelf->of->shelves, shelf, link);
    shelf->of->drop(shelf->template);
    deadline_close(&shelf->look, on_look_closed);
}

static bool has_room(void)
{
    struct meminfo now;
    return meminfo_read(&now, NULL) == 0 && now.available > now.total / 100 * SPARES_FREE_PERCENT;
}

static void on_look(struct deadline *d)
{
    struct spare_shelf *shelf = container_of(d, struct spare_shelf, look);
    bool is_idle = clock_mono_ms() - shelf->used_ms > SPARES_IDLE_MS;
    if (is_idle || !file_exists(shelf->template)) {
        remove_shelf(shelf);
        return;
    }
    if (has_room())
        shelf->of->make(d->timer.loop, shelf->template);
    else
        shelf->of->drop(shelf->template);
    deadline_arm(d, SPARES_LOOK_MS);
}

static struct spare_shelf *find(const struct spares *s, const char *template)
{
    struct spare_shelf *shelf;
    TAILQ_FOREACH (shelf, &s->shelves, link)
        if (str_eq(shelf->template, template))
            return shelf;
    return NULL;
}

static struct spare_shelf *add_shelf(struct spares *s, uv_loop_t *loop, const char *template)
{
    struct spare_shelf *shelf = xcalloc(1, sizeof *shelf);
    shelf->of = s;
    shelf->template = xstrdup(template);
    deadline_init(&shelf->look, loop, on_look);
    return shelf;
}

void spares_want(struct spares *s, uv_loop_t *loop, const char *template_dir)
{
    if (!host_jail_wants_spares())
        return;
    struct spare_shelf *shelf = find(s, template_dir);
    if (shelf)
        TAILQ_REMOVE(&s->shelves, shelf, link);
    else
        shelf = add_shelf(s, loop, template_dir);
    TAILQ_INSERT_HEAD(&s->shelves, shelf, link);
    shelf->used_ms = clock_mono_ms();
    deadline_arm(&shelf->look, SPARES_QUIET_MS);
    int count = 0;
    TAILQ_FOREACH (shelf, &s->shelves, link)
        count++;
    if (count > SPARES_MAX)
        remove_shelf(TAILQ_LAST(&s->shelves, spare_shelves));
}

void spares_close(struct spares *s)
{
    while (!TAILQ_EMPTY(&s->shelves))
        remove_shelf(TAILQ_FIRST(&s->shelves));
}
