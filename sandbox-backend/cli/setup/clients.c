// SPDX-License-Identifier: Apache-2.0
// cubby setup: the MCP clients that it knows, and where they keep their servers.
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/setup/setup.h"

#define PROGRAM "cubby-mcp"

static const struct setup_client CLIENTS[] = {
    {.name = "claude-code",
     .title = "Claude Code",
     .file = ".claude.json",
     .variable = "CLAUDE_CONFIG_DIR",
     .variable_file = ".claude.json",
     .section = "mcpServers",
     .plain = true,
     .has_type = true},
    {.name = "claude-desktop",
     .title = "Claude Desktop",
     .file = ".config/Claude/claude_desktop_config.json",
     .config = "Claude/claude_desktop_config.json",
     .section = "mcpServers"},
    {.name = "cursor", .title = "Cursor", .file = ".cursor/mcp.json", .section = "mcpServers"},
    {.name = "vscode",
     .title = "VS Code",
     .file = ".config/Code/User/mcp.json",
     .config = "Code/User/mcp.json",
     .section = "servers",
     .has_type = true},
    {.name = "codex",
     .title = "Codex",
     .file = ".codex/config.toml",
     .variable = "CODEX_HOME",
     .variable_file = "config.toml",
     .section = "mcp_servers",
     .format = FORMAT_TOML,
     .plain = true},
    {.name = "gemini",
     .title = "Gemini CLI",
     .file = ".gemini/settings.json",
     .section = "mcpServers"},
    {.name = "zed",
     .title = "Zed",
     .file = ".config/zed/settings.json",
     .config = "zed/settings.json",
     .section = "context_servers",
     .has_empty = true},
    {.name = "goose",
     .title = "Goose",
     .file = ".config/goose/config.yaml",
     .config = "goose/config.yaml",
     .section = "extensions",
     .format = FORMAT_YAML,
     .has_empty = true},
};

const struct setup_client *setup_client_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(CLIENTS); i++)
        if (str_eq(CLIENTS[i].name, name))
            return &CLIENTS[i];
    return NULL;
}

const struct setup_client *setup_client_next(const struct setup_client *after)
{
    size_t next = after ? (size_t)(after - CLIENTS) + 1 : 0;
    return next < ARRAY_LEN(CLIENTS) ? &CLIENTS[next] : NULL;
}

char *setup_client_path(const struct setup_client *client, struct err *e)
{
    const char *config = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");
    const char *own = client->variable ? getenv(client->variable) : NULL;
    if (own && *own == '/')
        return str_printf("%s/%s", own, client->variable_file);
    if (own && *own) {
        err_set(e, ERR_INVALID, "%s is not an absolute path, but \"%s\"", client->variable, own);
        return NULL;
    }
    if (client->config && config && *config == '/')
        return str_printf("%s/%s", config, client->config);
    if (home && *home == '/')
        return str_printf("%s/%s", home, client->file);
    err_set(
        e, ERR_INVALID,
        "HOME is not an absolute path, so the configuration file of %s cannot be found: set HOME",
        client->title);
    return NULL;
}

// Return the words that start the server from a launcher's cache; NULL: it is in none.
static json_t *launcher_of(const char *program)
{
    if (strstr(program, "/_npx/"))
        return json_pack("[s, s, s]", "npx", "-y", PROGRAM);
    if (strstr(program, "/archive-v") && strstr(program, "/site-packages/"))
        return json_pack("[s, s]", "uvx", PROGRAM);
    return NULL;
}

// A program that a desktop starts has only the system's directories in its PATH.
json_t *setup_server_command(struct err *e)
{
    static const char *const USUAL[] = {"/usr/local/bin/" PROGRAM, "/usr/bin/" PROGRAM};
    char *own auto_free = self_program(PROGRAM, e);
    char *real auto_free = own ? realpath(own, NULL) : NULL;
    if (own && !real)
        err_sys(e, errno, "find %s", own);
    if (!real)
        return NULL;
    json_t *launcher = launcher_of(real);
    if (launcher)
        return launcher;
    for (size_t i = 0; i < ARRAY_LEN(USUAL); i++) {
        if (str_eq(real, USUAL[i]))
            return json_pack("[s]", PROGRAM);
        if (file_exists(USUAL[i])) // it would be found first
            break;
    }
    return json_pack("[s]", real);
}

bool setup_client_is_used(const struct setup_client *client)
{
    char *path auto_free = setup_client_path(client, NULL);
    if (path && file_exists(path))
        return true;
    if (!path || str_eq(client->file, ".claude.json")) // its directory is everybody's
        return false;
    *strrchr(path, '/') = '\0';
    return file_exists(path);
}

// Return whether a line of TOML or YAML names the program, and is no comment.
static bool has_line(const char *text)
{
    for (const char *at = text; at; at = strchr(at, '\n')) {
        at += strspn(at, " \t\r\n");
        char *line auto_free = xstrndup(at, strcspn(at, "\n"));
        if (*line != '#' && strstr(line, PROGRAM))
            return true;
    }
    return false;
}

// Return whether the section of a JSON file names the program.
static bool has_server(const char *text, const char *section)
{
    json_t *file = jsonc_parse(text, NULL);
    char *servers auto_free = json_dumps(json_object_get(file, section), 0);
    json_decref(file);
    return servers && strstr(servers, PROGRAM);
}

bool setup_client_is_configured(const struct setup_client *client)
{
    struct buf text auto_buf = BUF_INIT;
    char *path auto_free = setup_client_path(client, NULL);
    if (!path || change_read(path, &text, NULL) < 0 || !strstr(buf_str(&text), PROGRAM))
        return false;
    return client->format == FORMAT_JSON ? has_server(buf_str(&text), client->section)
                                         : has_line(buf_str(&text));
}
