// SPDX-License-Identifier: Apache-2.0
// A failed attempt to make a template's part for gVisor.
#include "sandbox-backend/drivers/gvisor/attempt.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/version.h"
#include "sandbox-backend/drivers/gvisor/runsc_pin.h"
#include "sandbox-backend/drivers/host/tool.h"

#define FORMAT         1
#define JSON_BYTES_MAX 8192

// Return what the result of an attempt depends on, beside the template. New string.
static char *conditions(void)
{
    struct utsname kernel = {0};
    struct file_stamp tool = {0};
    char *mkfs auto_free = tool_find("mkfs.erofs", "erofs-utils", NULL);
    uname(&kernel);
    if (mkfs)
        file_stamp_get(mkfs, &tool);
    return str_printf("Cubby " CUBBY_VERSION ", runsc " RUNSC_SHA256 ", mkfs.erofs %" PRId64
                      "/%lld, kernel %s %s %s, user %u",
                      tool.size, (long long)tool.modified.tv_sec, kernel.release, kernel.version,
                      kernel.machine, (unsigned)geteuid());
}

static char *path_in(const char *dir)
{
    return str_printf("%s/" ATTEMPT_FILE, dir);
}

static bool may_pass(const struct err *why)
{
    return why->code == ERR_CANCELED || why->code == ERR_TIMEOUT || why->code == ERR_NO_SPACE ||
           why->code == ERR_BUSY || why->code == ERR_CONFLICT;
}

void attempt_failed(const char *dir, const struct err *why)
{
    if (may_pass(why))
        return;
    char *path auto_free = path_in(dir);
    char *now auto_free = conditions();
    json_t *record = json_pack("{s:i, s:o, s:s}", "format", FORMAT, "reason",
                               json_lossy_string(why->msg, strlen(why->msg)), "conditions", now);
    char *text auto_free = json_to_string(record);
    (void)file_replace(path, text, strlen(text), 0644, NULL);
    json_decref(record);
}

void attempt_forget(const char *dir)
{
    char *path auto_free = path_in(dir);
    unlink(path);
}

char *attempt_reason(const char *dir)
{
    struct buf text auto_buf = BUF_INIT;
    char *path auto_free = path_in(dir);
    if (file_read(path, JSON_BYTES_MAX, &text, NULL) < 0)
        return NULL;
    char *now auto_free = conditions();
    json_t *record = json_parse(buf_str(&text), text.len, NULL);
    const char *reason = json_string_value(json_object_get(record, "reason"));
    const char *then = json_string_value(json_object_get(record, "conditions"));
    bool holds =
        json_integer_value(json_object_get(record, "format")) == FORMAT && str_eq(then, now);
    char *result = holds && reason ? xstrdup(reason) : NULL;
    json_decref(record);
    return result;
}
