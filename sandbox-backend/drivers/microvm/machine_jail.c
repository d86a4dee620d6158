// SPDX-License-Identifier: Apache-2.0
// The jails of a machine's processes, in its record.
#include "sandbox-backend/drivers/microvm/host_jail.h"
#include "sandbox-backend/drivers/microvm/jailed.h"
#include "sandbox-backend/drivers/microvm/machine.h"

struct subproc *machine__start_jailed(struct machine *m, const struct jailed_program *program,
                                      const struct spawn_opts *opts, subproc_exit_cb on_exit,
                                      struct err *e)
{
    m->walls = host_jail_walls();
    m->walls_missing = host_jail_missing();
    return jailed_start(m->loop, program, opts, on_exit, m, e);
}

static json_t *names(unsigned walls)
{
    json_t *list = json_array();
    for (int i = 0; i < WALL_COUNT; i++)
        if (walls & WALL_BIT(i))
            json_array_append_new(list, json_string(wall_name((enum wall)i)));
    return list;
}

json_t *machine__jail_json(const struct machine *m)
{
    unsigned walls = m ? m->walls : host_jail_walls();
    unsigned missing = m ? m->walls_missing : host_jail_missing();
    return json_pack("{s:o, s:o}", "walls", names(walls), "missing", names(missing));
}

static unsigned walls_in(const json_t *list)
{
    unsigned walls = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        int wall = name ? wall_of(name) : -1;
        walls |= wall >= 0 ? WALL_BIT(wall) : 0;
    }
    return walls;
}

// One that a daemon before this started without has no such member, and no walls.
void machine__jail_adopt(struct machine *m, const json_t *record)
{
    m->walls = walls_in(json_object_get(record, "walls"));
    m->walls_missing = walls_in(json_object_get(record, "missing"));
}
