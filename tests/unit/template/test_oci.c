// SPDX-License-Identifier: Apache-2.0
// What the JSON files of an image may say, and how images are named.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/template/source/image_pull.h"
#include "sandbox-backend/template/source/oci.h"
#include "tests/lib/harness/tap.h"

#define A8     "aaaaaaaa"
#define HEX    A8 A8 A8 A8 A8 A8 A8 A8
#define DIGEST "sha256:" HEX
#define GZIP   "application/vnd.oci.image.layer.v1.tar+gzip"

static void reference(const char *text, const char *want, bool want_stdin)
{
    struct err e = ERR_INIT;
    bool is_stdin = false;
    char *got auto_free = image_reference(text, "/b/image.tar", &is_stdin, &e);
    if (want)
        is_str(got ? got : "(none)", want, "\"%s\"", text);
    else
        ok(!got && e.code == ERR_INVALID, "\"%s\" is refused", text);
    ok(is_stdin == want_stdin, "\"%s\" is%s standard input", text, want_stdin ? "" : " not");
}

static void test_references(void)
{
    reference("python:3.12-slim", "docker://python:3.12-slim", false);
    reference("localhost:5000/a/b@" DIGEST, "docker://localhost:5000/a/b@" DIGEST, false);
    reference("docker://a/b", "docker://a/b", false);
    reference("oci:/x:tag", "oci:/x:tag", false);
    reference("docker-archive:/x.tar", "docker-archive:/x.tar", false);
    reference("-", "docker-archive:/b/image.tar", true);
    reference("docker-archive:-", "docker-archive:/b/image.tar", true);
    reference("", NULL, false);
    reference("--help", NULL, false);
    reference("docker://", NULL, false);
    reference("oci:-x", NULL, false);
    reference("a b", NULL, false);
    reference("http://a/b", NULL, false);
    reference("containers-storage://a", NULL, false);
    reference("/etc/passwd", NULL, false);
}

static void index_of(const char *text, bool want, const char *what)
{
    struct err e = ERR_INIT;
    struct oci_blob blob;
    int rc = oci_index_parse(text, strlen(text), &blob, &e);
    ok((rc == 0) == want && (rc == 0 || e.code == ERR_INVALID), "an index %s: %s", what, e.msg);
    if (rc == 0)
        is_str(oci_blob_hex(&blob), HEX, "its digest");
}

static void test_index(void)
{
    index_of("{\"manifests\":[{\"digest\":\"" DIGEST "\",\"size\":3}]}", true, "with one image");
    index_of("{\"manifests\":[]}", false, "without an image");
    index_of("{\"manifests\":[{\"digest\":\"" DIGEST "\",\"size\":-3}]}", false, "with a bad size");
    index_of("{\"manifests\":[{\"digest\":\"sha256:../../x\",\"size\":3}]}", false, "with a path");
    index_of("{\"manifests\":[{\"digest\":\"sha512:" HEX "\",\"size\":3}]}", false, "with sha512");
    index_of("[]", false, "that is an array");
    index_of("{", false, "that ends early");
}

static void manifest_of(const char *layers, bool want, const char *what)
{
    struct err e = ERR_INIT;
    static struct oci_manifest m;
    struct buf text auto_buf = BUF_INIT;
    buf_printf(&text, "{\"config\":{\"digest\":\"" DIGEST "\",\"size\":3},\"layers\":[%s]}",
               layers);
    int rc = oci_manifest_parse(buf_str(&text), text.len, &m, &e);
    ok((rc == 0) == want && (rc == 0 || e.code == ERR_INVALID), "a manifest %s: %s", what, e.msg);
}

static void test_manifest(void)
{
    manifest_of("{\"mediaType\":\"" GZIP "\",\"digest\":\"" DIGEST "\",\"size\":3}", true,
                "of a layer");
    manifest_of("", false, "without layers");
    manifest_of("{\"mediaType\":\"" GZIP "+encrypted\",\"digest\":\"" DIGEST "\",\"size\":3}",
                false, "with an encrypted layer");
    manifest_of("{\"mediaType\":\"" GZIP "\",\"digest\":\"x\",\"size\":3}", false,
                "without a digest");
}

static void test_config(void)
{
    static const char TEXT[] = "{\"architecture\":\"amd64\",\"os\":\"linux\",\"config\":{\"Env\":["
                               "\"PATH=/a:/b\",\"E=\",\"=x\","
                               "\"none\",7],\"WorkingDir\":\"/"
                               "app\",\"User\":\"1000:10\",\"Labels\":{\"k\":\"v\",\"n\":1}}}";
    struct err e = ERR_INIT;
    struct oci_config c;
    ok(oci_config_parse(TEXT, strlen(TEXT), &c, &e) == 0, "a configuration: %s", e.msg);
    is_str(json_string_value(json_object_get(c.variables, "PATH")), "/a:/b", "a variable");
    ok(json_object_size(c.variables) == 2, "what is no variable is left out");
    is_str(c.directory, "/app", "the directory");
    is_str(c.user, "1000:10", "the user");
    ok(json_object_size(c.labels) == 1, "labels are strings");
    ok(c.diff_count == 0 && str_eq(c.diff_ids, ""), "no layers");
    oci_config_fini(&c);
}

static void test_diff_ids(void)
{
    struct err e = ERR_INIT;
    struct oci_config c;
    char *hex auto_free =
        xstrdup("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef");
    char *text auto_free = str_printf("{\"architecture\":\"amd64\",\"os\":\"linux\",\"rootfs\":{"
                                      "\"diff_ids\":[\"sha256:%s\",\"sha256:%s\"]}}",
                                      hex, hex);
    ok(oci_config_parse(text, strlen(text), &c, &e) == 0 && c.diff_count == 2, "two layers");
    char *both auto_free = str_printf("%s,%s", hex, hex);
    is_str(c.diff_ids, both, "their digests");
    oci_config_fini(&c);
}

static void refused(const char *text, const char *what)
{
    struct err e = ERR_INIT;
    struct oci_config c;
    ok(oci_config_parse(text, strlen(text), &c, &e) < 0 && e.code == ERR_INVALID, "%s", what);
}

#define HERE "{\"architecture\":\"amd64\",\"os\":\"linux\",\"config\":"

static void test_bad_configs(void)
{
    refused("{\"architecture\":\"arm64\",\"os\":\"linux\"}", "another processor");
    refused("{\"architecture\":\"amd64\",\"os\":\"windows\"}", "another system");
    refused(HERE "{\"WorkingDir\":\"app\"}}", "a relative directory");
    refused(HERE "{\"WorkingDir\":\"/a/../../b\"}}", "a directory that climbs");
    refused(HERE "{\"User\":\"a\\nb\"}}", "a user of two lines");
    refused(HERE "{},\"rootfs\":{\"diff_ids\":[\"sha256:x\"]}}", "a layer without a digest");
    refused(HERE "{},\"rootfs\":{\"diff_ids\":[7]}}", "a layer that is a number");
}

int main(void)
{
    test_references();
    test_index();
    test_manifest();
    test_config();
    test_diff_ids();
    test_bad_configs();
    return tap_done();
}
