// SPDX-License-Identifier: Apache-2.0
// The SDKs as they are published, of the directory that CLIENTS names.
import { createRequire } from 'node:module';

const require = createRequire(process.env.CLIENTS + '/');
export const e2b = require('e2b');
export const codeInterpreter = require('@e2b/code-interpreter');
export const WebSocket = require('ws');
export const Sandbox = codeInterpreter.Sandbox; // is e2b's, and runs code besides
