// SPDX-License-Identifier: Apache-2.0
// The end of a build: the disk of the last layer, and the template that is made of it.
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json_fields.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/version.h"
#include "sandbox-backend/build/engine_internal.h"
#include "sandbox-backend/drivers/host/tool.h"
#include "sandbox-backend/drivers/microvm/image/disk_image.h"
#include "sandbox-backend/drivers/microvm/image/machine_image.h"
#include "sandbox-backend/drivers/microvm/image/template.h"
#include "sandbox-backend/drivers/template_dirs.h"
#include "sandbox-backend/template/build.h"

#define FILE_BYTES_MAX (4 << 20)
#define MERGE_MS       1800000
#define STAT_BLOCK     512

// ---- what the template is made of
static char *start_of(const struct engine *b, const struct stage *s)
{
    const char *planned = json_string_value(json_object_get(b->plan, "start"));
    if (b->opts->start || planned)
        return xstrdup(b->opts->start ? b->opts->start : planned);
    return b->opts->no_start ? NULL : stage_start_command(s);
}

// A ready command waits for the start command, so it means nothing without one.
static char *ready_of(const struct engine *b, const struct stage *s, const char *start)
{
    const char *planned = json_string_value(json_object_get(b->plan, "ready"));
    if (b->opts->ready || planned)
        return xstrdup(b->opts->ready ? b->opts->ready : planned);
    return start ? stage_ready_command(s) : NULL;
}

static json_t *describe(const struct engine *b, const struct stage *s)
{
    char *start auto_free = start_of(b, s);
    char *ready auto_free = ready_of(b, s, start);
    return json_pack("{s:O, s:O, s:s?, s:s?, s:s?, s:s?, s:I, s:I, s:I, s:s?}", "variables",
                     s->config.env, "labels", s->config.labels, "user", s->config.user, "directory",
                     s->config.directory, "start", start, "ready", ready, "cpus",
                     (json_int_t)b->cpus, "memory_mb", (json_int_t)b->memory_mb, "disk_mb",
                     (json_int_t)b->disk_mb, "accel", b->opts->accel);
}

void engine__final_key(const struct engine *b, const struct stage *s, char key[KEY_CHARS + 1])
{
    json_t *what = describe(b, s);
    json_object_set_new(what, "envd", json_string(ENVD_VERSION));
    stage_hash(key, stage_key(s), what);
    json_decref(what);
}

// ---- the disk
// Find the disk of a layer: <home>/snapshots/<id>/image/disk.qcow2. New string, or NULL.
static char *layer_disk(const char *home, const char *key, struct err *e)
{
    char *dir auto_free = str_printf("%s/snapshots", home);
    DIR *all = opendir(dir);
    char *found = NULL;
    for (struct dirent *d; all && !found && (d = readdir(all));) {
        char *path auto_free = str_printf("%s/%s/snapshot.json", dir, d->d_name);
        json_t *json = d->d_name[0] == '.' ? NULL : json_file_read(path, FILE_BYTES_MAX, NULL);
        if (str_eq(json_string_value(json_object_get(json, "layer")), key))
            found = str_printf("%s/%s/image/" MACHINE_IMAGE_DISK, dir, d->d_name);
        json_decref(json);
    }
    if (all)
        closedir(all);
    if (!found)
        err_set(e, ERR_NOT_FOUND, "the layer of the last step was removed; build again");
    return found;
}

// Copy the base's disk with the layer's clusters over it. The layer's file is checked first: it
// must name no other file, because a guest's QEMU has written it.
static int merge_disks(const char *base, const char *layer, const char *to, int log, struct err *e)
{
    json_t *from = json_pack("{s:s, s:{s:s, s:s}, s:{s:s, s:{s:s, s:s}}}", "driver", "qcow2",
                             "file", "driver", "file", "filename", layer, "backing", "driver",
                             "raw", "file", "driver", "file", "filename", base);
    if (!from)
        return err_set(e, ERR_INVALID, "the path of CUBBY_HOME is not UTF-8");
    char *json auto_free = json_dumps(from, JSON_COMPACT);
    char *source auto_free = str_printf("json:%s", json);
    const char *const argv[] = {"qemu-img", "convert", "-O", "raw", "-S", "64k", source, to, NULL};
    const struct tool tool = {.argv = argv,
                              .package = "qemu-utils",
                              .out = log,
                              .log = log,
                              .keep = -1,
                              .timeout_ms = MERGE_MS};
    json_decref(from);
    return disk_image_check(layer, e) < 0 ? -1 : tool_run(&tool, e);
}

// The tools that write the disk say only that they failed.
static int check_space(const char *base, const char *layer, const char *work, struct err *e)
{
    struct stat of_base, of_layer = {0};
    if (stat(base, &of_base) < 0 || (layer && stat(layer, &of_layer) < 0))
        return err_sys(e, errno, "%s", layer ? layer : base);
    return dir_check_free(work, (of_base.st_blocks + of_layer.st_blocks) * STAT_BLOCK,
                          "the template's disk may need", e);
}

// Write the disk of the stage to <work>/disk.ext4. New string, its path; or NULL.
static char *make_disk(struct engine *b, const struct stage *s, struct err *e)
{
    char *dir auto_free = template_dirs_find(b->opts->home, s->template);
    char *base auto_free = str_printf("%s/" TEMPLATE_DISK, dir);
    char *to auto_free = str_printf("%s/" TEMPLATE_DISK, b->work);
    const struct stage *last = s;
    while (last->count == 0 && last->parent)
        last = last->parent;
    unlink(to);
    if (last->count == 0)
        return check_space(base, NULL, b->work, e) < 0 || file_copy(base, to, 0600, e) < 0
                   ? NULL
                   : steal(&to);
    char *layer auto_free = layer_disk(b->opts->home, stage_key(last), e);
    if (!layer || check_space(base, layer, b->work, e) < 0 ||
        merge_disks(base, layer, to, STDERR_FILENO, e) < 0) {
        b->space.needs = DISK_LITTLE_ROOM; // qemu-img has told its reason to the log
        if (e->code != ERR_CANCELED)
            disk_space_explain(&b->space, NULL, e);
        unlink(to);
        return NULL;
    }
    return steal(&to);
}

// ---- the template
static int make_template(struct engine *b, const struct stage *s, const char *disk, FILE *progress,
                         struct err *e)
{
    char key[KEY_CHARS + 1];
    json_t *what = describe(b, s);
    json_t *image = json_pack("{s:O}", "labels", s->config.labels);
    engine__final_key(b, s, key);
    const struct template_build spec = {
        .home = b->opts->home,
        .name = b->opts->name,
        .templates = b->opts->templates,
        .accel = b->opts->accel,
        .memory_mb = b->memory_mb,
        .cpus = b->cpus,
        .disk_mb = b->disk_mb,
        .progress = progress,
        .source = {.kind = FROM_DISK, .disk = disk},
        .environment = {.variables = s->config.env,
                        .directory = s->config.directory,
                        .user = s->config.user},
        .start = json_string_value(json_object_get(what, "start")),
        .ready = json_string_value(json_object_get(what, "ready")),
        .key = key,
        .image = image,
    };
    struct template built;
    int result = template_build(&spec, &built, e);
    if (result == 0)
        template_fini(&built);
    json_decref(image);
    json_decref(what);
    return result;
}

int engine__finish(struct engine *b, struct stage *s, struct err *e)
{
    char *text auto_free = str_printf("template %s", b->opts->name);
    report_step(b->opts->report, b->world.steps + 1, text, 0, false);
    char *disk auto_free = make_disk(b, s, e);
    if (!disk)
        return err_wrap(e, "merge the disk of the last layer");
    FILE *progress = engine__stream(b->opts->report);
    int result = make_template(b, s, disk, progress, e);
    fclose(progress);
    unlink(disk);
    if (result == 0)
        report_step_done(b->opts->report);
    return result;
}
