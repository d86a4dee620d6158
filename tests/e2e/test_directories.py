# SPDX-License-Identifier: Apache-2.0
"""upload_directory and download_directory with real parts only."""

import hashlib
import os

from harness import Mcp
from tiers import tier  # noqa: F401


def test_a_project_goes_in_and_its_changes_come_out(home, tmp_path):
    top = tmp_path / "app"
    (top / "src").mkdir(parents=True)
    (top / "src/m.py").write_text("print(6 * 7)\n")
    (top / "src/run").write_text("#!/bin/sh\npython3 src/m.py > out.txt\nrm src/old\n")
    (top / "src/run").chmod(0o755)
    (top / "src/old").write_text("old")
    (top / "data").write_bytes(os.urandom(6 << 20))
    (top / ".env").write_text("SECRET=1")
    server = Mcp(home, "--project-dir", top, cwd=tmp_path)
    try:
        server.initialize()
        sandbox = server.tool("create_sandbox")["sandbox_id"]
        assert server.tool("upload_directory", seconds=120, sandbox_id=sandbox)["files"] == 4
        said = server.tool("run_command", sandbox_id=sandbox, command="cd app && src/run && ls -A && sha256sum data > sum")
        assert said["exit_code"] == 0 and ".env" not in said["stdout"], said
        came = server.tool("download_directory", seconds=120, sandbox_id=sandbox)
        assert (came["files"], came["deleted"], came["skipped"]) == (2, 1, [])
        assert (top / "out.txt").read_text() == "42\n" and not (top / "src/old").exists()
        assert (top / "sum").read_text().split()[0] == hashlib.sha256((top / "data").read_bytes()).hexdigest()
        server.tool("kill_sandbox", sandbox_id=sandbox)
    finally:
        server.close()
