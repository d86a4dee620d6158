// SPDX-License-Identifier: Apache-2.0
// Fuzz the JSON files of an image: what is accepted is within its limits.
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/template/source/image_pull.h"
#include "sandbox-backend/template/source/oci.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    struct err e = ERR_INIT, f = ERR_INIT, g = ERR_INIT, h = ERR_INIT;
    struct oci_blob blob;
    static struct oci_manifest manifest;
    struct oci_config config;
    if (oci_index_parse(text, size, &blob, &e) == 0)
        assert(strlen(oci_blob_hex(&blob)) == 64 && blob.size >= 0);
    else
        assert(err_is(&e));
    if (oci_manifest_parse(text, size, &manifest, &f) == 0)
        assert(manifest.count >= 1 && manifest.count <= OCI_LAYERS_MAX);
    else
        assert(err_is(&f));
    if (oci_config_parse(text, size, &config, &g) == 0) {
        assert(!config.directory ||
               (*config.directory == '/' && !strstr(config.directory, "/../")));
        assert(json_is_object(config.labels));
        oci_config_fini(&config);
    } else {
        assert(err_is(&g));
    }
    bool is_stdin;
    char *reference auto_free = xstrndup(text, size);
    char *whole auto_free = image_reference(reference, "/a", &is_stdin, &h);
    assert(!whole || (strchr(whole, ':') && *whole != '-'));
    return 0;
}
