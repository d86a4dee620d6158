// SPDX-License-Identifier: Apache-2.0
// Types and functions that the files of `cubby setup` share.
//
// The configuration file of a client is the user's: it has comments, an order and other servers. So
// nothing is parsed and written back. An editor finds the place of one entry in the text and adds
// the entry there. An edit that changes anything else is refused (edit_json checks that), and a
// form that the editor does not know is refused with the text to add by hand.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"

#define ENTRY_NAME    "cubby" // of the server in every client's configuration
#define TEXT_BOM      "\xef\xbb\xbf"
#define TEXT_BOM_SAID "it begins with a byte order mark (BOM); save it as UTF-8 without one"

enum client_format { FORMAT_JSON, FORMAT_TOML, FORMAT_YAML };

struct setup_client {
    const char *name, *title;
    const char *file;     // below the user's home directory
    const char *config;   // the same below $XDG_CONFIG_HOME, if the client heeds it; or NULL
    const char *variable; // of the environment: a directory that the client uses instead; or NULL
    const char *variable_file; // the file in that directory
    const char *section;       // the member that holds the servers
    enum client_format format;
    bool plain;     // the client passes only structured content: --structured off
    bool has_type;  // an entry has "type": "stdio"
    bool has_empty; // an entry needs "args" also when there are none
};

// Return the client of that name, or NULL. With NULL: the first; `after`: the one after it.
const struct setup_client *setup_client_find(const char *name);
const struct setup_client *setup_client_next(const struct setup_client *after);
// Return the path of the client's configuration file. New string, or NULL with `e`.
char *setup_client_path(const struct setup_client *client, struct err *e);
// Return the words of the command for an entry: "cubby-mcp" if that is this installation's in the
// PATH of every program; the launcher's if this program is in the cache of npx or uvx, which may be
// emptied; else the absolute path. New reference, or NULL.
json_t *setup_server_command(struct err *e);
// Return whether the client has been used on this machine: its directory is there.
bool setup_client_is_used(const struct setup_client *client);
// Return whether the client's file has an entry for Cubby. False also if it cannot be read.
bool setup_client_is_configured(const struct setup_client *client);

// ---- entry.c: the entry of a client
// Return the entry whose command has these words. New reference.
json_t *entry_new(const struct setup_client *client, const json_t *command);
// Return an entry of JSON that is there, with the command of the new one and what else it needs.
// Words of another program, such as npx, go. New reference.
json_t *entry_merge(json_t *old, json_t *entry);

// ---- editors. `text` is the whole file, "" if it is missing. `out` gets the new text, which
// equals the old one if the entry is there already. ERR_INVALID: the file has a form that the
// editor does not change; the message says which.
int edit_json(const char *text, const char *section, json_t *entry, struct buf *out, struct err *e);
int edit_toml(const char *text, const char *section, json_t *entry, struct buf *out, struct err *e);
int edit_yaml(const char *text, const char *section, json_t *entry, struct buf *out, struct err *e);
// Parse JSON with comments and trailing commas. New reference.
json_t *jsonc_parse(const char *text, struct err *e);

// ---- change.c: a change of a file that is the user's
// Read the file to `out`, which stays empty if the file is missing. ERR_INVALID for anything but a
// regular file, which is not opened, or not waited for.
int change_read(const char *path, struct buf *out, struct err *e);
// Show what the change does, ask unless `yes`, and write it. CHANGE_SAME: there is nothing to
// change. CHANGE_REFUSED: nothing was written, because the user said no or cannot be asked. -1 with
// `e`, also if another program has changed the file since `before` was read.
enum change_result { CHANGE_WRITTEN, CHANGE_SAME, CHANGE_REFUSED };
int change_apply(const char *path, const struct buf *before, const struct buf *after, bool yes,
                 struct err *e);

// ---- make.c: the template "default"
#define SETUP_ARCHIVE_ENV "CUBBY_TEMPLATE_ARCHIVE"
// Run a verb of `cubby` with these words, the verb's name first. Return its exit status.
int setup_run(int (*verb)(int argc, char **argv), const char *const *words, int count);
// Make the template from the nearest source. for_all: for all users of this machine. Return an exit
// status. A template from an archive may lack its part for gVisor then.
int setup_template(bool for_all);
// Add that part to the template, in a process of its own that goes on after this one, and say so.
// Do nothing if the template has the part, or this host cannot make it. If the last attempt failed
// and nothing has changed since, only say why.
void setup_finish(const char *home);

// ---- prepare.c: the same in the background, unless the home has a template.
int setup_prepare(const char *home);

// ---- first.c: what to do next on this machine; `cubby` without a verb
int first_contact(void);
// Tell whether a daemon of this home finds the template "default", in the home or in the system's
// directory.
bool first_has_template(const char *home);
