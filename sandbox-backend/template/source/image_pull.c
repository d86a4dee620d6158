// SPDX-License-Identifier: Apache-2.0
// The files of an OCI image, as ROOTFS_TAR: skopeo copies the image into an OCI layout in the build
// directory, this code checks the digest of each file, and cubby-flatten makes one archive of the
// layers.
#include "sandbox-backend/template/source/image_pull.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/microvm/image/template.h"
#include "sandbox-backend/keys/sha256.h"
#include "sandbox-backend/template/rootfs.h"
#include "sandbox-backend/template/source/flatten.h"

#define LAYOUT       "image" // in the build directory
#define ARCHIVE      "image.tar"
#define EXTRA        "extra.tar" // a last layer: what Cubby adds
#define PULL_MS      (60 * 60 * 1000)
#define STALL_MS     120000
#define LOOK_MS      2000
#define REFERENCE    1024
#define LOG_BYTES    8192 // the end of the log is read
#define REASON_BYTES 100
#define POLICY       "/etc/containers/policy.json"
#define OWN_POLICY   ".config/containers/policy.json"
#define ARGS_MAX     24
#define DOCKER       "docker://"
#define ARCHIVE_NAME "docker-archive:"

// ---- the reference
static const char *const TRANSPORTS[] = {DOCKER, "oci:", "oci-archive:", ARCHIVE_NAME, "dir:"};

static bool is_local(const char *reference)
{
    return !str_starts(reference, DOCKER);
}

char *image_reference(const char *text, const char *archive, bool *is_stdin, struct err *e)
{
    size_t i = 0;
    *is_stdin = str_eq(text, "-") || str_eq(text, ARCHIVE_NAME "-");
    if (*is_stdin)
        return str_printf(ARCHIVE_NAME "%s", archive);
    while (i < ARRAY_LEN(TRANSPORTS) && !str_starts(text, TRANSPORTS[i]))
        i++;
    bool named = i < ARRAY_LEN(TRANSPORTS);
    const char *name = text + (named ? strlen(TRANSPORTS[i]) : 0);
    bool is_bad = !*name || *name == '-' || strlen(text) > REFERENCE;
    for (const char *c = text; *c; c++)
        is_bad |= (unsigned char)*c <= ' ' || *c == 0x7f;
    if (!named)
        is_bad |= strstr(text, "://") != NULL || *text == '/' || *text == '.';
    if (is_bad) {
        err_set(e, ERR_INVALID,
                "\"%.200s\" names no image: give NAME:TAG, docker://HOST/NAME:TAG, oci:DIR, "
                "oci-archive:FILE, docker-archive:FILE or dir:DIR",
                text);
        return NULL;
    }
    return named ? xstrdup(text) : str_printf(DOCKER "%s", text);
}

// skopeo runs in the build directory, so the name of a local file must not be relative.
static char *absolute(const char *reference, struct err *e)
{
    const char *colon = strchr(reference, ':');
    if (!is_local(reference) || colon[1] == '/')
        return xstrdup(reference);
    char *here auto_free = getcwd(NULL, 0);
    if (!here) {
        err_sys(e, errno, "find the working directory");
        return NULL;
    }
    return str_printf("%.*s:%s/%s", (int)(colon - reference), reference, here, colon + 1);
}

static int read_stdin(const char *to, int64_t max_bytes, struct err *e)
{
    static char block[1 << 20];
    int fd auto_close = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(e, errno, "create %s", to);
    bool is_empty = true;
    for (ssize_t n; (n = read(STDIN_FILENO, block, sizeof block)) != 0;) {
        is_empty &= n < 0;
        if (n < 0 && (errno != EINTR || tool_interrupted()))
            return tool_interrupted() ? err_set(e, ERR_CANCELED, "interrupted")
                                      : err_sys(e, errno, "read the image from standard input");
        if (n > 0 && fd_write_all(fd, block, (size_t)n, e) < 0)
            return -1;
        max_bytes -= n > 0 ? n : 0;
        if (max_bytes < 0)
            return err_set(e, ERR_TOO_LARGE,
                           "the image on standard input is larger than the disk: give a larger "
                           "--disk");
    }
    return is_empty ? err_set(e, ERR_INVALID,
                              "standard input held no image, it was empty: pipe what docker save "
                              "writes")
                    : 0;
}

// ---- 1. skopeo
// Notices when no more data arrives.
struct watch {
    const struct image_pull_spec *spec;
    int64_t bytes, changed_ms, looked_ms;
};

static void on_tick(void *ctx)
{
    struct watch *w = ctx;
    if (w->spec->tool.tick)
        w->spec->tool.tick(w->spec->tool.ctx);
}

static bool has_stalled(void *ctx)
{
    struct watch *w = ctx;
    int64_t now = clock_mono_ms();
    if (now - w->looked_ms < LOOK_MS)
        return false;
    w->looked_ms = now;
    int64_t bytes = dir_disk_bytes(w->spec->build_dir);
    if (bytes != w->bytes)
        w->changed_ms = now;
    w->bytes = bytes;
    return now - w->changed_ms > STALL_MS;
}

// Without a policy of the host's (containers-policy.json(5)), skopeo takes nothing.
static bool has_policy(void)
{
    const char *home = getenv("HOME");
    char *own auto_free = str_printf("%s/" OWN_POLICY, home ? home : "");
    return file_exists(POLICY) || file_exists(own);
}

// Where skopeo looks for credentials and authorities, beside what every tool gets.
static void add_environment(const char **env, char **owned)
{
    static const char *const KEPT[] = {"XDG_RUNTIME_DIR", "REGISTRY_AUTH_FILE", "DOCKER_CONFIG",
                                       "SSL_CERT_FILE", "SSL_CERT_DIR"};
    for (size_t i = 0, n = 0; i < ARRAY_LEN(KEPT); i++)
        if (getenv(KEPT[i])) {
            owned[n] = str_printf("%s=%s", KEPT[i], getenv(KEPT[i]));
            env[n] = owned[n];
            n++;
        }
}

// Return the end of skopeo's last message, which is the cause, or "". New string. Its log has lines
// such as: time="..." level=fatal msg="initializing source X: reading manifest: unknown"
static char *skopeo_reason(const char *build_dir)
{
    static const char FIELD[] = "msg=\"", BETWEEN[] = ": ";
    char *log auto_free = str_printf("%s/" TEMPLATE_LOG, build_dir);
    char *text auto_free = xmalloc(LOG_BYTES + 1);
    size_t len = file_read_tail(log, text, LOG_BYTES);
    const char *line = len ? strrchr(text, '\n') : NULL;
    const char *from = len ? strstr(line ? line : text, FIELD) : NULL;
    const char *end = text + len;
    if (!from)
        return xstrdup("");
    from += strlen(FIELD);
    if (end > from && end[-1] == '"')
        end--;
    for (const char *next; end - from > REASON_BYTES && (next = strstr(from, BETWEEN));)
        from = next + strlen(BETWEEN);
    if (end - from > REASON_BYTES)
        from = end - REASON_BYTES;
    while (from < end && ((unsigned char)*from & 0xc0) == 0x80) // the rest of a character
        from++;
    return from < end ? xstrndup(from, (size_t)(end - from)) : xstrdup("");
}

static int explain_pull(const struct image_pull_spec *spec, const char *reference, struct err *e)
{
    char *reason auto_free = skopeo_reason(spec->build_dir);
    if (e->code == ERR_INTERNAL && *reason) {
        const struct err failed = *e;
        *e = ERR_INIT;
        err_set(e, failed.code, "%s: %s", failed.msg, reason);
    }
    return err_wrap(e, "pull %s", reference);
}

// Only skopeo knows what an image is.
static int explain_stdin(int result, struct err *e)
{
    const struct err failed = *e;
    if (result == 0 || e->code == ERR_CANCELED || e->code == ERR_NO_SPACE)
        return result;
    *e = ERR_INIT;
    return err_set(e, ERR_INVALID,
                   "standard input held no image: pipe what docker save writes (%.300s)",
                   failed.msg);
}

static int copy_image(const struct image_pull_spec *spec, const char *reference, struct err *e)
{
    struct watch watch = {.spec = spec, .changed_ms = clock_mono_ms()};
    const char *argv[ARGS_MAX] = {"skopeo"}, *env[8] = {NULL};
    char *owned[8] = {NULL};
    int n = 1;
    if (!has_policy())
        argv[n++] = "--insecure-policy";
    argv[n++] = "--override-os=linux";
    argv[n++] = "--override-arch=amd64";
    argv[n++] = "--tmpdir=.";
    argv[n++] = "copy";
    argv[n++] = "--quiet";
    argv[n++] = "--retry-times=2";
    if (spec->plain_http && !is_local(reference))
        argv[n++] = "--src-tls-verify=false";
    char *authfile auto_free = spec->authfile ? realpath(spec->authfile, NULL) : NULL;
    if (authfile) {
        argv[n++] = "--src-authfile";
        argv[n++] = authfile;
    }
    argv[n++] = "--";
    argv[n++] = reference;
    argv[n] = "oci:" LAYOUT ":image";
    struct tool tool = spec->tool;
    add_environment(env, owned);
    tool.env = env;
    tool.timeout_ms = PULL_MS;
    tool.tick = on_tick;
    tool.has_stalled = has_stalled;
    tool.ctx = &watch;
    int result = tool_run_like(&tool, argv, "skopeo", e);
    for (size_t i = 0; i < ARRAY_LEN(owned); i++)
        free(owned[i]);
    return result < 0 ? explain_pull(spec, reference, e) : 0;
}

// ---- 2. the layout
static char *blob_path(const struct image_pull_spec *spec, const struct oci_blob *blob)
{
    return str_printf("%s/" LAYOUT "/blobs/sha256/%s", spec->build_dir, oci_blob_hex(blob));
}

static int check_blob(const struct image_pull_spec *spec, const struct oci_blob *blob,
                      struct err *e)
{
    char *path auto_free = blob_path(spec, blob);
    struct sha256 is, wanted;
    struct stat st;
    if (lstat(path, &st) < 0 || !S_ISREG(st.st_mode))
        return err_set(e, ERR_INVALID, "the image lacks its part %s", blob->digest);
    if (st.st_size != blob->size)
        return err_set(e, ERR_INVALID, "the part %s has %lld bytes instead of %lld", blob->digest,
                       (long long)st.st_size, (long long)blob->size);
    if (!sha256_from_hex(oci_blob_hex(blob), &wanted) || sha256_of_file(path, &is, e) < 0)
        return -1;
    return sha256_equal(&is, &wanted)
               ? 0
               : err_set(e, ERR_INVALID, "the part %s has another digest: it is damaged",
                         blob->digest);
}

static int read_blob(const struct image_pull_spec *spec, const struct oci_blob *blob,
                     struct buf *out, struct err *e)
{
    char *path auto_free = blob_path(spec, blob);
    return check_blob(spec, blob, e) < 0 ? -1 : file_read(path, OCI_JSON_MAX, out, e);
}

static int read_layout(const struct image_pull_spec *spec, struct oci_blob *image,
                       struct oci_manifest *manifest, struct oci_config *config, struct err *e)
{
    char *path auto_free = str_printf("%s/" LAYOUT "/index.json", spec->build_dir);
    struct buf index auto_buf = BUF_INIT, text auto_buf = BUF_INIT, conf auto_buf = BUF_INIT;
    if (file_read(path, OCI_JSON_MAX, &index, e) < 0 ||
        oci_index_parse(buf_str(&index), index.len, image, e) < 0 ||
        read_blob(spec, image, &text, e) < 0 ||
        oci_manifest_parse(buf_str(&text), text.len, manifest, e) < 0 ||
        read_blob(spec, &manifest->config, &conf, e) < 0)
        return -1;
    for (size_t i = 0; i < manifest->count; i++)
        if (check_blob(spec, &manifest->layers[i], e) < 0)
            return -1;
    return oci_config_parse(buf_str(&conf), conf.len, config, e);
}

// ---- 3. one archive
// Make an archive with what Cubby adds: the sources of the Python kernel.
static int make_extra(const struct image_pull_spec *spec, struct err *e)
{
    char *file auto_free = str_printf("--file=%s", EXTRA);
    char *to_python auto_free = str_printf("--transform=s,^\\.,%s,", IMAGE_PYTHON);
    const char *argv[] = {"tar",         "--create",         file,          "--owner=0",
                          "--group=0",   "--mode=go-w,a+rX", "--sort=name", to_python,
                          "--directory", spec->python,       ".",           NULL};
    return tool_run_like(&spec->tool, argv, "tar", e);
}

static int flatten(const struct image_pull_spec *spec, const struct oci_manifest *manifest,
                   const struct oci_config *config, struct err *e)
{
    if (config->diff_count != manifest->count)
        return err_set(e, ERR_INVALID,
                       "the image's configuration lists %zu layers, and its manifest %zu",
                       config->diff_count, manifest->count);
    char **layers = xcalloc(manifest->count + 2, sizeof *layers);
    for (size_t i = 0; i < manifest->count; i++)
        layers[i] = blob_path(spec, &manifest->layers[i]);
    if (spec->python)
        layers[manifest->count] = str_printf("%s/" EXTRA, spec->build_dir);
    const struct flatten_spec flat = {.build_dir = spec->build_dir,
                                      .layers = (const char *const *)layers,
                                      .directory = config->directory,
                                      .user = spec->user ? spec->user : config->user,
                                      .diff_ids = config->diff_ids,
                                      .max_bytes = spec->max_bytes};
    int result = spec->python && make_extra(spec, e) < 0 ? -1 : flatten_run(spec->pump, &flat, e);
    for (size_t i = 0; i < manifest->count + 1; i++)
        free(layers[i]);
    free(layers);
    return result;
}

static json_t *describe(const struct image_pull_spec *spec, const struct oci_blob *image,
                        const struct oci_manifest *manifest, const struct oci_config *config)
{
    return json_pack("{s:s, s:s, s:s, s:i, s:I, s:O}", "reference", spec->reference, "digest",
                     image->digest, "config", manifest->config.digest, "layers",
                     (int)manifest->count, "bytes", (json_int_t)manifest->bytes, "labels",
                     config->labels);
}

static int remove_parts(const struct image_pull_spec *spec, struct err *e)
{
    char *layout auto_free = str_printf("%s/" LAYOUT, spec->build_dir);
    char *archive auto_free = str_printf("%s/" ARCHIVE, spec->build_dir);
    char *extra auto_free = str_printf("%s/" EXTRA, spec->build_dir);
    unlink(archive);
    unlink(extra);
    return dir_remove(layout, e);
}

int image_pull(const struct image_pull_spec *spec, struct oci_config *config, json_t **about,
               struct err *e)
{
    struct oci_blob image;
    struct oci_manifest manifest;
    bool is_stdin;
    *config = (struct oci_config){0};
    char *archive auto_free = str_printf("%s/" ARCHIVE, spec->build_dir);
    char *given auto_free = image_reference(spec->reference, archive, &is_stdin, e);
    char *reference auto_free = given ? absolute(given, e) : NULL;
    if (!reference || (is_stdin && read_stdin(archive, spec->max_bytes, e) < 0))
        return -1;
    int copied = copy_image(spec, reference, e);
    if ((is_stdin ? explain_stdin(copied, e) : copied) < 0 ||
        read_layout(spec, &image, &manifest, config, e) < 0)
        return -1;
    if (flatten(spec, &manifest, config, e) < 0 || remove_parts(spec, e) < 0) {
        oci_config_fini(config);
        return -1;
    }
    *about = describe(spec, &image, &manifest, config);
    return 0;
}
