# SPDX-License-Identifier: Apache-2.0
"""What E2B offers: the operations of its API, and the methods of its SDKs with the tests of ours that show them.

The script e2b_table.py makes the tables of docs/e2b.md from this and from cubbyd's source.
"""

# Method and path of each operation in E2B's spec/openapi.yml; {} is a parameter.
OPERATIONS = """
GET /health
GET /teams
GET /teams/{}/metrics
GET /teams/{}/metrics/max
GET /sandboxes
POST /sandboxes
GET /v2/sandboxes
POST /v2/sandboxes
GET /sandboxes/metrics
GET /sandboxes/{}
DELETE /sandboxes/{}
GET /sandboxes/{}/logs
GET /v2/sandboxes/{}/logs
GET /sandboxes/{}/metrics
POST /sandboxes/{}/pause
POST /sandboxes/{}/resume
POST /sandboxes/{}/connect
POST /v2/sandboxes/{}/connect
POST /sandboxes/{}/fork
POST /sandboxes/{}/timeout
POST /sandboxes/{}/refreshes
POST /sandboxes/{}/snapshots
PUT /sandboxes/{}/network
GET /snapshots
GET /templates
GET /v2/templates
POST /templates
POST /v2/templates
POST /v3/templates
GET /templates/{}
POST /templates/{}
DELETE /templates/{}
PATCH /templates/{}
PATCH /v2/templates/{}
GET /templates/{}/files/{}
POST /templates/{}/builds/{}
POST /v2/templates/{}/builds/{}
GET /templates/{}/builds/{}/status
GET /templates/{}/builds/{}/logs
GET /templates/aliases/{}
POST /templates/tags
DELETE /templates/tags
GET /templates/{}/tags
GET /default-templates
GET /volumes
POST /volumes
GET /volumes/{}
DELETE /volumes/{}
GET /secrets
POST /secrets
GET /secrets/{}
POST /secrets/{}
DELETE /secrets/{}
GET /api-keys
POST /api-keys
PATCH /api-keys/{}
DELETE /api-keys/{}
POST /access-tokens
DELETE /access-tokens/{}
GET /nodes
GET /nodes/{}
POST /nodes/{}
POST /admin/teams/{}/sandboxes/kill
POST /admin/teams/{}/builds/cancel
GET /events/sandboxes
GET /events/sandboxes/{}
GET /events/webhooks
POST /events/webhooks
GET /events/webhooks/{}
PATCH /events/webhooks/{}
DELETE /events/webhooks/{}
""".split("\n")[1:-1]

# JavaScript's name (Python's is the same in its own case), the operations of the API that it needs, and a test: a
# scenario of tests/lib/daemon/sdk.py, or FILE::TEST below tests/. "" stands for a method without a test of its own.
METHODS = """
Sandbox.create | POST /sandboxes | sandbox_create
Sandbox.create: volumeMounts | POST /v2/sandboxes | e2e/test_volumes.py::test_sdks
Sandbox.connect, sandbox.connect | POST /sandboxes/{}/connect | sandbox_connect
Sandbox.list | GET /v2/sandboxes | sandbox_list
Sandbox.kill, sandbox.kill | DELETE /sandboxes/{} | sandbox_kill
Sandbox.getInfo, sandbox.getInfo | GET /sandboxes/{} | sandbox_create
Sandbox.setTimeout, sandbox.setTimeout | POST /sandboxes/{}/timeout | sandbox_timeout
Sandbox.pause, sandbox.pause: keepMemory false | POST /sandboxes/{}/pause | protocol/daemon/test_daemon_disk_pause.py::test_pause_and_connect
Sandbox.create: lifecycle onTimeout pause, keepMemory false | POST /sandboxes | protocol/daemon/test_daemon_disk_pause.py::test_auto_pause
Sandbox.createSnapshot: keepMemory false | POST /sandboxes/{}/snapshots | protocol/daemon/test_daemon_disk_pause.py::test_snapshot
Sandbox.create: lifecycle onTimeout pause | POST /sandboxes | sandbox_auto_pause
Sandbox.create: lifecycle autoResume | POST /sandboxes | sandbox_auto_resume
Sandbox.fork, sandbox.fork | POST /sandboxes/{}/fork | sandbox_fork
sandbox.commands.run | | commands_run
sandbox.commands.run: background | | commands_background
sandbox.commands.connect | | commands_connect
sandbox.pty.resize | | pty_resize
sandbox.pty.kill | | pty_kill
sandbox.pty.connect | | pty_connect
sandbox.files.read, write | | files_text
sandbox.files.read: gzip | | files_gzip
sandbox.files.watchDir | | files_watch
Template.getBuildStatus | GET /templates/{}/builds/{}/status | protocol/daemon/test_daemon_builds.py::test_logs_come_in_pages
Template.assignTags, removeTags, getTags | POST /templates/tags, DELETE /templates/tags, GET /templates/{}/tags | protocol/daemon/test_daemon_builds.py::test_tags_point_to_builds
Volume.create, connect, list, getInfo, destroy | POST /volumes, GET /volumes, GET /volumes/{}, DELETE /volumes/{} | protocol/daemon/test_daemon_volumes.py::test_sdks
volume.list, makeDir, getInfo, exists, updateMetadata, readFile, writeFile, remove | | protocol/daemon/test_daemon_volumes.py::test_sdks
Sandbox.create: network rules | POST /sandboxes | protocol/daemon/test_daemon_secret_api.py::test_sdks
Sandbox.create: network egressProxy | POST /sandboxes | protocol/egress/test_egress_proxy_api.py::test_sdks
Template.build, buildInBackground | POST /v3/templates, POST /v2/templates/{}/builds/{}, GET /templates/{}/files/{} | protocol/daemon/test_daemon_builds.py::test_a_build_becomes_a_template
Sandbox.pause, sandbox.pause, Sandbox.betaPause, sandbox.betaPause | POST /sandboxes/{}/pause | sandbox_pause
Sandbox.getFullInfo | GET /sandboxes/{} | sandbox_create
Sandbox.getMetrics, sandbox.getMetrics | GET /sandboxes/{}/metrics | sandbox_metrics
Sandbox.createSnapshot, listSnapshots, deleteSnapshot, sandbox.createSnapshot, listSnapshots | POST /sandboxes/{}/snapshots, GET /snapshots, DELETE /templates/{} | sandbox_snapshot
Sandbox.updateNetwork, sandbox.updateNetwork | PUT /sandboxes/{}/network | protocol/daemon/test_daemon_control.py::test_network_put_replaces_all
Sandbox.updateNetwork: rules, egressProxy | PUT /sandboxes/{}/network | protocol/daemon/test_daemon_secret_api.py::test_sdks
sandbox.getHost | | sandbox_host
sandbox.isRunning | | sandbox_kill
Sandbox.create: mcp | POST /sandboxes | sdk/test_sdk_mcp.py::test_mcp_servers_behind_one_url
sandbox.getMcpUrl, getMcpToken | | sdk/test_sdk_mcp.py::test_mcp_servers_behind_one_url
Sandbox.create: iam | - | protocol/daemon/test_daemon_create.py::test_refused
sandbox.uploadUrl, downloadUrl | | files_signed_urls
sandbox.commands.list, kill | | commands_kill
sandbox.commands.sendStdin, closeStdin | | commands_stdin
sandbox.commands.streamInput | | commands_stdin_streamed
sandbox.pty.create, sendInput, sendStdin, streamInput | | pty_input
sandbox.files.write, writeFiles: many | | files_many
sandbox.files.list, exists, getInfo, rename, remove, makeDir | | files_entries
sandbox.git.init, add, commit, status, branches, createBranch, checkoutBranch, deleteBranch, reset, restore, remoteAdd, remoteGet, setConfig, getConfig, configureUser | | sandbox_git
sandbox.git.clone, push, pull | | sandbox_git
sandbox.git.dangerouslyAuthenticate | |
sandbox.runCode | | code_text
sandbox.runCode: charts, tables, images | | code_every_kind
sandbox.createCodeContext, listCodeContexts, restartCodeContext, removeCodeContext | | code_contexts
Template.exists, aliasExists | GET /templates/aliases/{} | protocol/daemon/test_daemon_control.py::test_names_of_templates
template.fromTemplate, copy, runCmd, makeDir, setEnvs, setStartCmd, setWorkdir, setUser | POST /v2/templates/{}/builds/{} | e2e/test_sdk_templates.py::test_javascript
template.fromImage, fromBaseImage | POST /v2/templates/{}/builds/{} | protocol/daemon/test_daemon_builds.py::test_images_of_e2b_are_local_templates
template.fromDebianImage, fromUbuntuImage, fromFedoraImage, fromAlpineImage, fromArchImage, fromPythonImage, fromNodeImage, fromBunImage, fromDockerfile | POST /v2/templates/{}/builds/{} |
template.fromAWSRegistry, fromGCPRegistry | POST /v2/templates/{}/builds/{} | protocol/daemon/test_daemon_builds.py::test_credentials_stay_in_one_file
template.copyItems, remove, rename, makeSymlink, pipInstall, npmInstall, bunInstall, aptInstall, gitClone, setReadyCmd, skipCache | POST /v2/templates/{}/builds/{} |
template.addMcpServer | POST /v2/templates/{}/builds/{} | sdk/test_sdk_builder.py::test_every_method
template.betaDevContainerPrebuild, betaSetDevContainerStart | - |
Template.toJSON, toDockerfile | |
Secret.create, list, getInfo, exists, update, destroy, fill | POST /secrets, GET /secrets, GET /secrets/{}, POST /secrets/{}, DELETE /secrets/{} | protocol/daemon/test_daemon_secret_api.py::test_sdks
Secret.iamToken | - | protocol/daemon/test_daemon_secret_api.py::test_wrong_rules_are_refused
e2b sandbox create, list, info, kill | POST /v2/sandboxes, GET /v2/sandboxes, GET /sandboxes/{}, DELETE /sandboxes/{} | sdk/test_cli.py::test_create_list_info_and_kill
e2b sandbox connect | POST /v2/sandboxes/{}/connect | sdk/test_cli.py::test_terminals
e2b sandbox pause, resume | POST /sandboxes/{}/pause, POST /v2/sandboxes/{}/connect | sdk/test_cli.py::test_pause_and_resume
e2b sandbox exec | | sdk/test_cli.py::test_exec
e2b sandbox logs, metrics | GET /sandboxes/{}/logs, GET /sandboxes/{}/metrics | sdk/test_cli.py::test_logs_and_metrics
e2b sandbox snapshot | POST /sandboxes/{}/snapshots, GET /snapshots, DELETE /templates/{} | sdk/test_cli.py::test_snapshots
e2b template list, delete | GET /templates, DELETE /templates/{} | sdk/test_cli.py::test_templates
e2b template create | POST /v3/templates | e2e/test_sdk_templates.py::test_command_line
e2b template publish, unpublish | PATCH /v2/templates/{} | e2e/test_sdk_templates.py::test_command_line
e2b template init, migrate | |
e2b auth info | | sdk/test_cli.py::test_who_i_am
e2b auth login, logout, configure | - |
""".split("\n")[1:-1]

# Members of JavaScript's objects that its types do not offer.
INTERNAL = """
sandbox.getJupyterRequestUrl sandbox.handleRequestError sandbox.resolveApiOpts sandbox.fileUrl sandbox.commands.start
sandbox.git.runGit sandbox.git.runShell sandbox.git.getRemoteUrl sandbox.git.resolveRemoteName
sandbox.git.withRemoteCredentials sandbox.git.hasUpstream Sandbox.createSandbox Sandbox.forkSandbox
Sandbox.connectSandbox Sandbox.resolveOpts Volume.resolveOpts Secret.resolveOpts Template.resolveOpts
template.collectStackTrace template.toJSON template.toDockerfile template.build template.instructionsWithHashes
template.serialize
""".split()
