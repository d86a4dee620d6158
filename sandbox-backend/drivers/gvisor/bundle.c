// SPDX-License-Identifier: Apache-2.0
// Check a template's files for gVisor, and write the bundle of a machine.
#include "sandbox-backend/drivers/gvisor/bundle.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/json_fields.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/host/read_only.h"

#define JSON_BYTES_MAX 262144
#define ANNOTATION     "dev.gvisor.spec.rootfs."
#define SIZE_MB_MAX    (1 << 24)
#define LAYER_FACTOR   2   // of the guest's memory
#define SLACK_MB       192 // memory beside the guest's

// The layer above the root file system is in memory, so it cannot be as large as a disk. What the
// guest writes there counts for the host beside the guest's own memory.
static void limit_layer(struct bundle_template *t)
{
    if (t->disk_mb > t->memory_mb * LAYER_FACTOR)
        t->disk_mb = t->memory_mb * LAYER_FACTOR;
}

static int read_facts(const json_t *json, struct bundle_template *out, struct err *e)
{
    const char *rootfs =
        json_string_value(json_object_get(json_object_get(json, "gvisor"), "rootfs"));
    if (json_get_int(json, "cpus", 1, 1024, &out->cpus, 1, e) < 0 ||
        json_get_int(json, "memory_mb", 1, SIZE_MB_MAX, &out->memory_mb, 512, e) < 0 ||
        json_get_int(json, "disk_mb", 1, SIZE_MB_MAX, &out->disk_mb, 2048, e) < 0 ||
        json_get_bool(json, "python", &out->python, false, e) < 0)
        return -1;
    limit_layer(out);
    if (!rootfs || strlen(rootfs) >= sizeof out->rootfs)
        return err_set(e, ERR_NOT_FOUND, "the template has no files for gVisor");
    snprintf(out->rootfs, sizeof out->rootfs, "%s", rootfs);
    return 0;
}

// Read a file of the template's directory `from`, which errors call `template_dir`.
static json_t *read_json(int from, const char *template_dir, const char *name, struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    int file auto_close = openat(from, name, O_RDONLY | O_CLOEXEC);
    json_t *json = NULL;
    if (file < 0)
        err_sys(e, errno, "open");
    else if (fd_read_all(file, JSON_BYTES_MAX, &text, e) == 0)
        json = json_parse(buf_str(&text), text.len, e);
    if (!json)
        err_wrap(e, "%s/%s", template_dir, name);
    return json;
}

static int load(int from, const char *template_dir, struct bundle_template *out, struct err *e)
{
    *out = (struct bundle_template){0};
    json_t *json = read_json(from, template_dir, "template.json", e);
    int result = json ? read_facts(json, out, e) : -1;
    json_decref(json);
    if (result == 0 && faccessat(from, BUNDLE_DIR "/" BUNDLE_ROOTFS, F_OK, 0) != 0)
        result = err_set(e, ERR_NOT_FOUND, "%s/" BUNDLE_DIR "/" BUNDLE_ROOTFS " is missing",
                         template_dir);
    if (result < 0) {
        err_wrap(e, "template %s cannot run under gVisor; run `cubby template finish`",
                 str_base(template_dir));
        e->code = ERR_NOT_FOUND;
    }
    return result;
}

int bundle_load(const char *template_dir, struct bundle_template *out, struct err *e)
{
    int fd auto_close = open(template_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(e, errno, "open %s", template_dir);
    return load(fd, template_dir, out, e);
}

int bundle_open(const char *template_dir, struct bundle_template *out, struct err *e)
{
    int fd auto_close = read_only_open(template_dir, e);
    return fd < 0 || load(fd, template_dir, out, e) < 0 ? -1 : steal_fd(&fd);
}

int64_t bundle_memory_mb(int64_t memory_mb, int64_t disk_mb)
{
    return memory_mb + disk_mb + SLACK_MB;
}

bool bundle_apply_size(struct bundle_template *t, const struct machine_size *size)
{
    bool changes = size->disk_mb && size->disk_mb != t->disk_mb;
    t->cpus = size->cpus ? size->cpus : t->cpus;
    t->memory_mb = size->memory_mb ? size->memory_mb : t->memory_mb;
    t->disk_mb = size->disk_mb ? size->disk_mb : t->disk_mb;
    return changes;
}

static void annotate(json_t *annotations, const char *name, const char *value)
{
    char *key auto_free = str_printf(ANNOTATION "%s", name);
    json_object_set_new(annotations, key, json_string(value));
}

// Name a file of the template for runsc.
static char *name_file(const char *name)
{
    return str_printf("/proc/self/fd/%d/" BUNDLE_DIR "/%s", BUNDLE_FD, str_base(name));
}

// A read-only file system beside the root is a file of the template, too.
static void set_sources(json_t *config)
{
    size_t i;
    json_t *mount;
    json_array_foreach (json_object_get(config, "mounts"), i, mount) {
        const char *source = json_string_value(json_object_get(mount, "source"));
        if (!source || !str_eq(json_string_value(json_object_get(mount, "type")), "erofs"))
            continue;
        char *path auto_free = name_file(source);
        json_object_set_new(mount, "source", json_string(path));
    }
}

int bundle_make(const char *dir, int template, const char *template_dir, int64_t disk_mb,
                struct err *e)
{
    char *to auto_free = str_printf("%s/" BUNDLE_CONFIG, dir);
    char *rootfs auto_free = name_file(BUNDLE_ROOTFS);
    char *size auto_free = str_printf("size=%lld", (long long)disk_mb << 20);
    json_t *config = read_json(template, template_dir, BUNDLE_DIR "/" BUNDLE_CONFIG, e);
    if (!config)
        return -1;
    set_sources(config);
    json_t *annotations = json_object_get(config, "annotations");
    if (!annotations) {
        annotations = json_object();
        json_object_set_new(config, "annotations", annotations);
    }
    annotate(annotations, "source", rootfs);
    annotate(annotations, "type", "erofs");
    annotate(annotations, "overlay", "memory");
    annotate(annotations, "options", size);
    char *text auto_free = json_to_string(config);
    json_decref(config);
    return file_replace(to, text, strlen(text), 0600, e);
}
