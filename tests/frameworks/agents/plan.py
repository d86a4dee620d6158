# SPDX-License-Identifier: Apache-2.0
"""The inputs of an agent of this folder: the server, the model's address and wire format, the task.

The first argument is JSON: {server: {command, args, env} or {url, token}, wire, model_url, task}.
Each agent is what a user of the framework writes; it prints the model's last words.
"""

import json
import sys

PLAN = json.loads(sys.argv[1])
SERVER, WIRE, URL, TASK = PLAN["server"], PLAN["wire"], PLAN["model_url"], PLAN["task"]
STDIO = "command" in SERVER
HEADERS = {"Authorization": f"Bearer {SERVER.get('token')}"}
