// SPDX-License-Identifier: Apache-2.0
// How this host's distribution installs packages.
#include "sandbox-backend/host/distribution.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define RELEASE_FILE      "/etc/os-release"
#define RELEASE_BYTES_MAX 65536

enum family { DEBIAN, FEDORA, ARCH, FAMILIES, UNKNOWN = FAMILIES };

static const char *const COMMANDS[FAMILIES] = {
    [DEBIAN] = "sudo apt-get install",
    [FEDORA] = "sudo dnf install",
    [ARCH] = "sudo pacman -S",
};

// The names of packages that other distributions call by another name than Debian. NULL: that is
// not known.
static const struct {
    const char *names[FAMILIES];
} NAMES[] = {
    {{"qemu-system-x86", "qemu-system-x86", "qemu-system-x86"}},
    {{"qemu-utils", "qemu-img", "qemu-img"}},
    {{"uidmap", "shadow-utils", "shadow"}},
    {{"xz-utils", "xz", "xz"}},
    {{"mmdebstrap", NULL, NULL}},
    {{"dpkg", "dpkg", "dpkg"}},
    {{"curl", "curl", "curl"}},
    {{"skopeo", "skopeo", "skopeo"}},
    {{"fakeroot", "fakeroot", "fakeroot"}},
    {{"e2fsprogs", "e2fsprogs", "e2fsprogs"}},
    {{"erofs-utils", "erofs-utils", "erofs-utils"}},
    {{"bubblewrap", "bubblewrap", "bubblewrap"}},
    {{"systemd", "systemd", "systemd"}},
};

// Return the value of a line NAME=value, without quotes. New string, "" if there is none.
static char *value_of(const char *text, const char *name)
{
    size_t len = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, len) != 0 || line[len] != '=')
            continue;
        const char *value = line + len + 1;
        char quote[] = {*value, '\n', '\0'};
        bool is_quoted = *value == '"' || *value == '\'';
        return is_quoted ? xstrndup(value + 1, strcspn(value + 1, quote))
                         : xstrndup(value, strcspn(value, "\n"));
    }
    return xstrdup("");
}

static enum family family_of_word(const char *word)
{
    static const struct {
        const char *id;
        enum family family;
    } IDS[] = {{"debian", DEBIAN}, {"ubuntu", DEBIAN}, {"fedora", FEDORA}, {"arch", ARCH}};
    for (size_t i = 0; i < ARRAY_LEN(IDS); i++)
        if (str_eq(word, IDS[i].id))
            return IDS[i].family;
    return UNKNOWN;
}

// A relative of Red Hat's names Fedora as like it, but has no qemu-system-x86, so its ID decides.
static enum family family_of(const char *os_release)
{
    char *id auto_free = value_of(os_release, "ID");
    char *like auto_free = value_of(os_release, "ID_LIKE");
    char *rest = like;
    enum family family = family_of_word(id);
    for (char *word; family == UNKNOWN && (word = strsep(&rest, " "));)
        if (!str_eq(word, "fedora"))
            family = family_of_word(word);
    return family;
}

static const char *name_in(enum family family, const char *package)
{
    if (family == DEBIAN)
        return package;
    for (size_t i = 0; family != UNKNOWN && i < ARRAY_LEN(NAMES); i++)
        if (str_eq(NAMES[i].names[DEBIAN], package))
            return NAMES[i].names[family];
    return NULL;
}

char *distribution_install_for(const char *os_release, const char *packages)
{
    enum family family = family_of(os_release);
    struct buf command auto_buf = BUF_INIT;
    char *words auto_free = xstrdup(packages);
    char *rest = words;
    buf_adds(&command, family == UNKNOWN ? "" : COMMANDS[family]);
    for (char *word; (word = strsep(&rest, " "));) {
        const char *name = *word ? name_in(family, word) : "";
        if (!name)
            return str_printf("install what this distribution calls Debian's %s", packages);
        if (*name)
            buf_printf(&command, " %s", name);
    }
    return buf_take(&command);
}

char *distribution_install(const char *packages)
{
    struct buf text auto_buf = BUF_INIT;
    (void)file_read(RELEASE_FILE, RELEASE_BYTES_MAX, &text, NULL);
    return distribution_install_for(buf_str(&text), packages);
}
