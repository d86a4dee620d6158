// SPDX-License-Identifier: Apache-2.0
// The JSON files of an OCI image layout: index, manifest and configuration.
#include "sandbox-backend/template/source/oci.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define SHA256     "sha256:"
#define HEX_DIGITS "0123456789abcdef"
#define SIZE_MAX_  ((int64_t)1 << 40)
#define USER_MAX   64
#define PATH_MAX_  1024

// The media types of layers that libarchive reads. An encrypted layer has another one.
static const char *const LAYER_TYPES[] = {
    "application/vnd.oci.image.layer.v1.tar",
    "application/vnd.oci.image.layer.v1.tar+gzip",
    "application/vnd.oci.image.layer.v1.tar+zstd",
    "application/vnd.oci.image.layer.nondistributable.v1.tar",
    "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
    "application/vnd.oci.image.layer.nondistributable.v1.tar+zstd",
    "application/vnd.docker.image.rootfs.diff.tar.gzip",
    "application/vnd.docker.image.rootfs.diff.tar",
};

const char *oci_blob_hex(const struct oci_blob *blob)
{
    return blob->digest + strlen(SHA256);
}

static json_t *parse_object(const char *text, size_t len, struct err *e)
{
    json_t *json = json_parse(text, len, e);
    if (json && !json_is_object(json)) {
        json_decref(json);
        json = NULL;
        err_set(e, ERR_INVALID, "it is not a JSON object");
    }
    return json;
}

static bool is_digest(const char *text)
{
    size_t prefix = strlen(SHA256);
    return text && str_starts(text, SHA256) && strlen(text) == OCI_DIGEST_CHARS &&
           strspn(text + prefix, HEX_DIGITS) == OCI_DIGEST_CHARS - prefix;
}

static int take_blob(const json_t *descriptor, struct oci_blob *out, struct err *e)
{
    const char *digest = json_string_value(json_object_get(descriptor, "digest"));
    const json_t *size = json_object_get(descriptor, "size");
    if (!is_digest(digest))
        return err_set(e, ERR_INVALID, "a digest is not sha256 with 64 digits: \"%.100s\"",
                       digest ? digest : "(none)");
    if (!json_is_integer(size) || json_integer_value(size) < 0 ||
        json_integer_value(size) > SIZE_MAX_)
        return err_set(e, ERR_INVALID, "%s has no valid size", digest);
    memcpy(out->digest, digest, OCI_DIGEST_CHARS + 1);
    out->size = json_integer_value(size);
    return 0;
}

// ---- index
int oci_index_parse(const char *text, size_t len, struct oci_blob *manifest, struct err *e)
{
    json_t *index = parse_object(text, len, e);
    const json_t *all = json_object_get(index, "manifests");
    int result = -1;
    if (index && json_array_size(all) != 1)
        err_set(e, ERR_INVALID, "it names %zu images instead of one", json_array_size(all));
    else if (index)
        result = take_blob(json_array_get(all, 0), manifest, e);
    json_decref(index);
    return result < 0 ? err_wrap(e, "the image's index") : 0;
}

// ---- manifest
static int take_layer(const json_t *layer, struct oci_manifest *out, struct err *e)
{
    const char *type = json_string_value(json_object_get(layer, "mediaType"));
    size_t i = 0;
    while (i < ARRAY_LEN(LAYER_TYPES) && !str_eq(type, LAYER_TYPES[i]))
        i++;
    if (i == ARRAY_LEN(LAYER_TYPES))
        return err_set(e, ERR_INVALID, "layers of the type \"%.100s\" cannot be read",
                       type ? type : "(none)");
    struct oci_blob *blob = &out->layers[out->count];
    if (take_blob(layer, blob, e) < 0)
        return -1;
    out->bytes += blob->size;
    out->count++;
    return 0;
}

static int take_manifest(const json_t *manifest, struct oci_manifest *out, struct err *e)
{
    const json_t *layers = json_object_get(manifest, "layers");
    if (take_blob(json_object_get(manifest, "config"), &out->config, e) < 0)
        return err_wrap(e, "config");
    if (json_array_size(layers) == 0 || json_array_size(layers) > OCI_LAYERS_MAX)
        return err_set(e, ERR_INVALID, "the image has %zu layers; 1 to %d are possible",
                       json_array_size(layers), OCI_LAYERS_MAX);
    for (size_t i = 0; i < json_array_size(layers); i++)
        if (take_layer(json_array_get(layers, i), out, e) < 0)
            return -1;
    return 0;
}

int oci_manifest_parse(const char *text, size_t len, struct oci_manifest *out, struct err *e)
{
    *out = (struct oci_manifest){.count = 0};
    json_t *manifest = parse_object(text, len, e);
    int result = manifest ? take_manifest(manifest, out, e) : -1;
    json_decref(manifest);
    return result < 0 ? err_wrap(e, "the image's manifest") : 0;
}

// ---- configuration
static int take_diff_ids(const json_t *list, struct oci_config *out, struct err *e)
{
    struct buf all = BUF_INIT;
    size_t i;
    json_t *one;
    json_array_foreach (list, i, one) {
        const char *text = json_string_value(one);
        if (i >= OCI_LAYERS_MAX || !is_digest(text)) {
            buf_fini(&all);
            return err_set(e, ERR_INVALID, "its list of layers (rootfs) is not valid");
        }
        buf_printf(&all, "%s%s", i ? "," : "", text + strlen(SHA256));
    }
    out->diff_count = json_array_size(list);
    out->diff_ids = buf_take(&all);
    return 0;
}

static bool is_clean(const char *text)
{
    for (const unsigned char *c = (const unsigned char *)text; *c; c++)
        if (*c < ' ' || *c == 0x7f)
            return false;
    return true;
}

// "NAME=value". A variable that no command could get is left out.
static int take_variables(const json_t *list, struct oci_config *out, struct err *e)
{
    size_t bytes = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *text = json_string_value(json_array_get(list, i));
        const char *equals = text ? strchr(text, '=') : NULL;
        if (!equals || equals == text)
            continue;
        bytes += strlen(text);
        if (bytes > OCI_TEXT_MAX)
            return err_set(e, ERR_INVALID, "its variables have more than %d bytes", OCI_TEXT_MAX);
        char *name auto_free = xstrndup(text, (size_t)(equals - text));
        if (!out->variables)
            out->variables = json_object();
        json_object_set_new(out->variables, name, json_string(equals + 1));
    }
    return 0;
}

static int take_labels(const json_t *labels, struct oci_config *out, struct err *e)
{
    const char *key;
    json_t *value;
    size_t bytes = 0;
    json_object_foreach ((json_t *)(uintptr_t)labels, key, value) {
        bytes += strlen(key) + json_string_length(value);
        if (bytes > OCI_TEXT_MAX)
            return err_set(e, ERR_INVALID, "its labels have more than %d bytes", OCI_TEXT_MAX);
        if (json_is_string(value))
            json_object_set(out->labels, key, value);
    }
    return 0;
}

static bool leaves(const char *path)
{
    char *whole auto_free = str_printf("%s/", path);
    return strstr(whole, "/../") != NULL;
}

static int take_directory(const char *directory, struct oci_config *out, struct err *e)
{
    if (!directory || !*directory || str_eq(directory, "/"))
        return 0;
    if (*directory != '/' || strlen(directory) > PATH_MAX_ || !is_clean(directory) ||
        leaves(directory))
        return err_set(e, ERR_INVALID, "its WorkingDir \"%.100s\" is not an absolute path",
                       directory);
    out->directory = xstrdup(directory);
    return 0;
}

static int take_user(const char *user, struct oci_config *out, struct err *e)
{
    if (!user || !*user)
        return 0;
    if (strlen(user) > USER_MAX || !is_clean(user))
        return err_set(e, ERR_INVALID, "its User \"%.100s\" is not a user", user);
    out->user = xstrdup(user);
    return 0;
}

static int take_config(const json_t *json, struct oci_config *out, struct err *e)
{
    const char *processor = json_string_value(json_object_get(json, "architecture"));
    const char *os = json_string_value(json_object_get(json, "os"));
    const json_t *config = json_object_get(json, "config");
    if (!str_eq(processor, "amd64") || !str_eq(os, "linux"))
        return err_set(e, ERR_INVALID,
                       "the image is for %.30s on %.30s; a sandbox runs linux on amd64",
                       os ? os : "(no system)", processor ? processor : "(no processor)");
    if (take_variables(json_object_get(config, "Env"), out, e) < 0 ||
        take_labels(json_object_get(config, "Labels"), out, e) < 0 ||
        take_directory(json_string_value(json_object_get(config, "WorkingDir")), out, e) < 0)
        return -1;
    if (take_user(json_string_value(json_object_get(config, "User")), out, e) < 0)
        return -1;
    return take_diff_ids(json_object_get(json_object_get(json, "rootfs"), "diff_ids"), out, e);
}

int oci_config_parse(const char *text, size_t len, struct oci_config *out, struct err *e)
{
    json_t *json = parse_object(text, len, e);
    *out = (struct oci_config){.labels = json_object()};
    int result = json ? take_config(json, out, e) : -1;
    json_decref(json);
    if (result == 0)
        return 0;
    oci_config_fini(out);
    return err_wrap(e, "the image's configuration");
}

void oci_config_fini(struct oci_config *c)
{
    json_decref(c->variables);
    json_decref(c->labels);
    free(c->directory);
    free(c->user);
    free(c->diff_ids);
    *c = (struct oci_config){0};
}
