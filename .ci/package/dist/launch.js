#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// Starts a program of this package, cubby-mcp or cubby, by the name that this file was called by.
//
// cubby-mcp gets --prepare: it answers its client at once, and makes the template of sandboxes in the
// background on first use. The package cubby-template-default, if it is installed beside this one,
// has that template.
"use strict";
const { spawn } = require("node:child_process");
const os = require("node:os");
const path = require("node:path");

const about = require("./package.json");

function end(text) {
  process.stderr.write(`cubby: ${text}\n`);
  process.exit(1);
}

// The version of this computer's glibc, such as "2.36". undefined: it has another C library.
function glibc() {
  process.report.excludeNetwork = true; // names of its addresses may take seconds
  return process.report.getReport().header.glibcVersionRuntime;
}

function isOlder(version, needed) {
  const [a, b] = [version, needed].map((text) => text.split(".").map(Number));
  return a[0] !== b[0] ? a[0] < b[0] : a[1] < b[1];
}

function check() {
  if (process.platform !== "linux" || process.arch !== "x64")
    end(`this package is for Linux on x86-64, and this is ${process.platform} on ${process.arch}`);
  const version = glibc();
  const needed = about.cubby.glibc;
  if (!version) end(`this package needs glibc ${needed} or newer, and this computer has another C library`);
  if (isOlder(version, needed)) end(`this package needs glibc ${needed} or newer, and this computer has ${version}`);
}

function environment() {
  const env = { CUBBY_MCP_PREPARE: "1", ...process.env };
  if (env.CUBBY_TEMPLATE_ARCHIVE) return env;
  try {
    env.CUBBY_TEMPLATE_ARCHIVE = require.resolve("cubby-template-default/default.cubby");
  } catch {
    // cubby setup has other sources
  }
  return env;
}

function start(name) {
  const child = spawn(path.join(__dirname, "tree/bin", name), process.argv.slice(2), { stdio: "inherit", env: environment() });
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
  child.on("error", (error) => end(`cannot start ${name}: ${error.message}`));
  child.on("exit", (status, signal) => process.exit(signal ? 128 + os.constants.signals[signal] : status));
}

check();
start(path.basename(process.argv[1]).startsWith("cubby-mcp") ? "cubby-mcp" : "cubby");
