// SPDX-License-Identifier: Apache-2.0
// The Dockerfile parser: what it reads, and what it refuses by its line.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/build/dockerfile.h"
#include "tests/lib/harness/tap.h"

// Return the steps of all stages without their texts, one a line. New string.
static char *steps_of(const char *text)
{
    struct err e = ERR_INIT;
    struct buf out = BUF_INIT;
    json_t *file = dockerfile_parse(text, strlen(text), &e);
    size_t i, k;
    json_t *stage, *step;
    if (!file)
        return xstrdup(e.msg);
    json_array_foreach (json_object_get(file, "stages"), i, stage) {
        const char *name = json_string_value(json_object_get(stage, "name"));
        buf_printf(&out, "%sFROM %s%s%s", out.len ? "\n" : "",
                   json_string_value(json_object_get(stage, "from")), name ? " AS " : "",
                   name ? name : "");
        json_array_foreach (json_object_get(stage, "steps"), k, step) {
            json_object_del(step, "text");
            char *json auto_free = json_dumps(step, JSON_COMPACT | JSON_SORT_KEYS);
            buf_printf(&out, "\n%s", json);
        }
    }
    json_decref(file);
    return buf_take(&out);
}

static const char *const READ[][2] = {
    {"FROM a", "FROM a"},
    {"\xef\xbb\xbf"
     "FROM a\r\n",
     "FROM a"},
    {"# comment\n\n  FROM a AS Build\nfrom Build\n", "FROM a AS build\nFROM Build"},
    {"# syntax=docker/dockerfile:1\n# escape=`\nFROM a\nRUN dir C:\\`\n x",
     "FROM a\n"
     "{\"args\":[\"dir C:\\\\ x\"],\"line\":4,\"type\":\"RUN\"}"},
    {"# a comment\n# escape=`\nFROM a\nRUN a `\n",
     "FROM a\n"
     "{\"args\":[\"a `\"],\"line\":4,\"type\":\"RUN\"}"},
    {"FROM a\nRUN a \\\n# comment\n\n  && b \\  \n && c",
     "FROM a\n"
     "{\"args\":[\"a   && b  && c\"],\"line\":2,\"type\":\"RUN\"}"},
    {"FROM a\nRUN echo a\\\\\nRUN b",
     "FROM a\n"
     "{\"args\":[\"echo a\\\\\\\\\"],\"line\":2,\"type\":\"RUN\"}\n"
     "{\"args\":[\"b\"],\"line\":3,\"type\":\"RUN\"}"},
    {"FROM a\nRUN [\"/bin/a\", \"b c\"]",
     "FROM a\n"
     "{\"args\":[\"/bin/a\",\"b c\"],\"exec\":true,\"line\":2,\"type\":\"RUN\"}"},
    {"FROM a\nRUN [ -f /x ] && y", "FROM a\n"
                                   "{\"args\":[\"[ -f /x ] && y\"],\"line\":2,\"type\":\"RUN\"}"},
    {"FROM a\nRUN <<EOF\nset -e\necho $A\nEOF\nUSER b",
     "FROM a\n"
     "{\"args\":[\"set -e\\necho $A\\n\"],\"line\":2,\"type\":\"RUN\"}\n"
     "{\"args\":[\"b\"],\"line\":6,\"type\":\"USER\"}"},
    {"FROM a\nRUN cat <<-'X' <<Y >/z\n\t\ta\n\tX\nb\nY\n",
     "FROM a\n"
     "{\"args\":[\"cat <<-'X' <<Y >/z\\na\\nX\\nb\\nY\\n\"],\"line\":2,\"type\":\"RUN\"}"},
    {"FROM a\nRUN --mount=type=cache,target=/c,sharing=locked --network=default x",
     "FROM a\n"
     "{\"args\":[\"x\"],\"line\":2,\"make\":[\"/c\"],\"type\":\"RUN\"}"},
    {"FROM a\nCOPY a b /c/",
     "FROM a\n"
     "{\"dest\":\"/c/\",\"line\":2,\"mode\":\"\",\"sources\":[\"a\",\"b\"],\"type\":\"COPY\","
     "\"user\":\"\"}"},
    {"FROM a\nCOPY --chown=u:g --chmod=0644 [\"a b\", \"/c\"]",
     "FROM a\n"
     "{\"dest\":\"/c\",\"line\":2,\"mode\":\"0644\",\"sources\":[\"a b\"],\"type\":\"COPY\","
     "\"user\":\"u:g\"}"},
    {"FROM a\nCOPY <<one <<\"two\" /d/\n1\none\n2\ntwo\n",
     "FROM a\n"
     "{\"dest\":\"/d/\",\"files\":[{\"literal\":false,\"name\":\"one\",\"text\":\"1\\n\"},"
     "{\"literal\":true,\"name\":\"two\",\"text\":\"2\\n\"}],\"line\":2,\"mode\":\"\","
     "\"sources\":[],\"type\":\"COPY\",\"user\":\"\"}"},
    {"FROM a AS x\nFROM b\nCOPY --from=x --link /a /b\nCOPY --from=0 /a /b\nCOPY --from=img:1 /a "
     "/b",
     "FROM a AS x\nFROM b\n"
     "{\"dest\":\"/b\",\"from\":\"x\",\"line\":3,\"mode\":\"\",\"sources\":[\"/a\"],\"type\":"
     "\"COPY\",\"user\":\"\"}\n"
     "{\"dest\":\"/b\",\"from\":\"0\",\"line\":4,\"mode\":\"\",\"sources\":[\"/a\"],\"type\":"
     "\"COPY\",\"user\":\"\"}\n"
     "{\"dest\":\"/b\",\"from\":\"img:1\",\"line\":5,\"mode\":\"\",\"sources\":[\"/a\"],\"type\":"
     "\"COPY\",\"user\":\"\"}"},
    {"FROM a\nENV A=1 B=\"x y\" C=a\\ b\nENV D e f\nLABEL a.b=c",
     "FROM a\n"
     "{\"args\":[\"A\",\"1\",\"B\",\"\\\"x y\\\"\",\"C\",\"a\\\\ "
     "b\"],\"line\":2,\"type\":\"ENV\"}\n"
     "{\"args\":[\"D\",\"e f\"],\"line\":3,\"type\":\"ENV\"}\n"
     "{\"args\":[\"a.b\",\"c\"],\"line\":4,\"type\":\"LABEL\"}"},
    {"ARG V=1\nFROM a:$V\nARG V\nARG W=2 X",
     "FROM a:$V\n"
     "{\"args\":[\"V\",null],\"line\":3,\"type\":\"ARG\"}\n"
     "{\"args\":[\"W\",\"2\",\"X\",null],\"line\":4,\"type\":\"ARG\"}"},
    {"FROM --platform=$BUILDPLATFORM a\nCMD [\"a\"]\nENTRYPOINT b c\nHEALTHCHECK --interval=5s CMD "
     "d\n"
     "HEALTHCHECK none\nSHELL [\"/bin/bash\", \"-c\"]\nMAINTAINER me <a@b>\nEXPOSE 80 90-91/UDP "
     "$P\n"
     "VOLUME [\"/v\"]\nVOLUME /v /w\nSTOPSIGNAL 9\nWORKDIR /a b",
     "FROM a\n"
     "{\"args\":[\"a\"],\"exec\":true,\"line\":2,\"type\":\"CMD\"}\n"
     "{\"args\":[\"b c\"],\"line\":3,\"type\":\"ENTRYPOINT\"}\n"
     "{\"args\":[\"d\"],\"line\":4,\"type\":\"HEALTHCHECK\"}\n"
     "{\"args\":[],\"line\":5,\"type\":\"HEALTHCHECK\"}\n"
     "{\"args\":[\"/bin/bash\",\"-c\"],\"line\":6,\"type\":\"SHELL\"}\n"
     "{\"args\":[\"maintainer\",\"me <a@b>\"],\"line\":7,\"type\":\"LABEL\"}\n"
     "{\"args\":[\"80\",\"90-91/UDP\",\"$P\"],\"line\":8,\"type\":\"EXPOSE\"}\n"
     "{\"args\":[\"/v\"],\"line\":9,\"type\":\"VOLUME\"}\n"
     "{\"args\":[\"/v\",\"/w\"],\"line\":10,\"type\":\"VOLUME\"}\n"
     "{\"args\":[\"9\"],\"line\":11,\"type\":\"STOPSIGNAL\"}\n"
     "{\"args\":[\"/a b\"],\"line\":12,\"type\":\"WORKDIR\"}"},
};

static const char *const REFUSED[][2] = {
    {"", "the Dockerfile has no FROM"},
    {"ARG a=1", "the Dockerfile has no FROM"},
    {"\n\nRUN x", "line 3: the first instruction must be FROM or ARG"},
    {"FROM a\n\nRUNN x", "line 3: \"RUNN\" is not an instruction of a Dockerfile"},
    {"FROM a\nONBUILD RUN x",
     "line 2: ONBUILD: it is not supported, because a template runs no triggers"},
    {"FROM a b", "line 1: FROM: it takes IMAGE, or IMAGE AS NAME"},
    {"FROM a AS 1x", "line 1: FROM: the name of the stage is not valid"},
    {"FROM a AS x\nFROM b AS X", "line 2: FROM: an earlier stage has this name"},
    {"FROM --platform=linux/arm64 a", "line 1: FROM: --platform can only be linux/amd64"},
    {"FROM a\nRUN", "line 2: RUN: it needs an argument"},
    {"FROM a\nRUN []", "line 2: RUN: the command is empty"},
    {"FROM a\nRUN --mount=type=secret,id=x y",
     "line 2: RUN: of the kinds of --mount only type=cache is supported"},
    {"FROM a\nRUN --mount=type=cache,target=x y",
     "line 2: RUN: --mount=type=cache needs target=/PATH"},
    {"FROM a\nRUN --security=insecure y", "line 2: RUN: --security is not supported"},
    {"FROM a\nRUN --network=host y",
     "line 2: RUN: --network can only be default; see --allow of the build"},
    {"FROM a\nRUN cat <<EOF\nx\n", "line 2: the here-document <<EOF has no end"},
    {"FROM a\nCOPY x", "line 2: COPY: it needs a source and a destination"},
    {"FROM a\nCOPY []", "line 2: COPY: it needs a source and a destination"},
    {"FROM a\nCOPY --parents x y", "line 2: COPY: --parents is not supported"},
    {"FROM a\nCOPY --chmod=99 x y",
     "line 2: COPY: --chmod=99 is not a mode: give octal digits such as 0644, or symbols such as "
     "u=rwX,go=rX"},
    {"FROM a\nCOPY --chmod=77777 x y",
     "line 2: COPY: --chmod=77777 is not a mode: give octal digits such as 0644, or symbols such "
     "as u=rwX,go=rX"},
    {"FROM a\nADD --chown=a:b:c x y",
     "line 2: ADD: --chown=a:b:c is not USER, USER:GROUP or :GROUP"},
    {"FROM a\nCOPY --chown=-R x y", "line 2: COPY: --chown=-R is not USER, USER:GROUP or :GROUP"},
    {"FROM a\nCOPY --from=0 x y", "line 2: COPY: --from names a stage that is not before this one"},
    {"FROM a AS x\nCOPY --from=X x y",
     "line 2: COPY: --from names a stage that is not before this one"},
    {"FROM a\nFROM b AS x\nCOPY --from=x x y",
     "line 3: COPY: --from names a stage that is not before this one"},
    {"FROM a\nADD --from=b x y", "line 2: ADD: --from is not supported"},
    {"FROM a\nADD https://x/y /z",
     "line 2: ADD: a URL as a source is not supported; download it with RUN"},
    {"FROM a\nENV 1=2", "line 2: ENV: \"1\" is not a valid name"},
    {"FROM a\nENV A=1 B", "line 2: ENV: each word must be NAME=VALUE"},
    {"FROM a\nENV A", "line 2: ENV: it takes NAME=VALUE"},
    {"FROM a\nSHELL /bin/sh",
     "line 2: SHELL: it takes a JSON array, such as [\"/bin/bash\", \"-c\"]"},
    {"FROM a\nEXPOSE 80 http", "line 2: EXPOSE: \"http\" is not a port, such as 80/tcp"},
    {"FROM a\nEXPOSE 0", "line 2: EXPOSE: \"0\" is not a port, such as 80/tcp"},
    {"FROM a\nEXPOSE 65536", "line 2: EXPOSE: \"65536\" is not a port, such as 80/tcp"},
    {"FROM a\nEXPOSE 80-", "line 2: EXPOSE: \"80-\" is not a port, such as 80/tcp"},
    {"FROM a\nEXPOSE 80/x", "line 2: EXPOSE: \"80/x\" is not a port, such as 80/tcp"},
    {"FROM a\nHEALTHCHECK x", "line 2: HEALTHCHECK: it takes NONE, or CMD and a command"},
    {"# escape=x\nFROM a", "line 1: escape must be \\ or `"},
    {"FROM a\xff", "the Dockerfile is not a text in UTF-8"},
};

int main(void)
{
    for (size_t i = 0; i < ARRAY_LEN(READ); i++) {
        char *got auto_free = steps_of(READ[i][0]);
        is_str(got, READ[i][1], "read %zu", i);
    }
    for (size_t i = 0; i < ARRAY_LEN(REFUSED); i++) {
        char *got auto_free = steps_of(REFUSED[i][0]);
        is_str(got, REFUSED[i][1], "refused %zu", i);
    }
    return tap_done();
}
