// SPDX-License-Identifier: Apache-2.0
// What a JavaScript agent of this folder is told; plan.py has the members. Packages come from the
// folder that the plan names, because the agents are not below it.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const plan = JSON.parse(process.argv[2]);
const require = createRequire(pathToFileURL(`${plan.packages}/package.json`));

export const { server, wire, model_url: url, task } = plan;
export const headers = { Authorization: `Bearer ${server.token}` };
export const load = (name) => import(pathToFileURL(require.resolve(name)));
