# SPDX-License-Identifier: Apache-2.0
"""Maps the 60 statements about a server for E2B's SDKs, against which Cubby was built, to the tests
that show them: 1-31 control plane, 32-37 proxy, 38-47 envd's access and files over REST, 48-54 its
file system, 55-60 its processes.

The official SDKs also use most of them (tests/sdk).
"""

import ast
import functools
import pathlib

import pytest

TESTS = pathlib.Path(__file__).parents[2]
WHERE = {
    "protocol/daemon/test_daemon_api.py": {
        1: "health", 10: "detail", 11: "detail", 12: "not_found_and_ended", 13: "list",
        14: "pages", 15: "metadata_filter", 16: "bad_queries", 17: "list", 18: "timeout",
        19: "refreshes_never_shorten", 20: "kill", 23: "connect"},
    "protocol/daemon/test_daemon_keys.py": {2: "a_key_is_needed"},
    "protocol/daemon/test_daemon_create.py": {
        3: "v2_answer", 4: "v1_secure_and_not", 5: "v1_secure_and_not", 6: "unknown_template",
        7: "refused", 8: "refused"},
    "protocol/daemon/test_daemon_control.py": {
        9: "names_need_everything_else_denied", 24: "processes_survive_a_pause",
        30: "network_put_replaces_all", 31: "metrics"},
    "protocol/netd/test_netd_policy.py": {30: "new_policy_cuts_what_it_denies"},
    "protocol/daemon/test_daemon_pause.py": {21: "pause", 22: "connect", 26: "auto_pause", 27: "auto_resume"},
    "protocol/daemon/test_daemon_proxy_pause.py": {27: "a_request_wakes"},
    "e2e/test_pause.py": {24: "pause_and_connect", 25: "pause_and_connect"},
    "protocol/daemon/test_daemon_fork.py": {28: "fork"},
    "protocol/daemon/test_daemon_snapshots.py": {29: "snapshot_and_create"},
    "protocol/daemon/test_daemon_proxy.py": {
        32: "unknown_sandbox", 33: "closed_port", 34: "bad_routes", 35: "by_host",
        36: "reserved_paths", 37: "end_of_the_sandbox_cuts_streams"},
    "protocol/daemon/test_daemon_proxy_rules.py": {35: "loopback"},
    "protocol/daemon/test_daemon_proxy_streams.py": {37: "a_sandbox_that_is_killed_cuts_its_commands"},
    "protocol/envd/test_envd_rest.py": {
        38: "token", 39: "unknown_users", 40: "signatures_that_do_not_sign", 60: "wrong_types"},
    "unit/envd/test_envd_signature.c": {41: "v1_gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E"},
    "protocol/envd/test_envd_files.py": {
        42: "multipart", 43: "refused_uploads", 44: "refused_downloads", 45: "empty_and_proc_files"},
    "protocol/envd/test_envd_uploads.py": {43: "gzip", 46: "metadata"},
    "protocol/envd/test_envd_compose.py": {47: "compose"},
    "protocol/envd/test_envd_filesystem.py": {
        48: "stat_of_a_file", 49: "make_dir", 50: "list_dir", 51: "remove", 52: "stat_of_links"},
    "protocol/envd/test_envd_watch.py": {53: "recursive", 54: "polled"},
    "protocol/envd/test_envd_process.py": {55: "the_order_of_events", 56: "cwd", 60: "keepalive"},
    "protocol/envd/test_envd_process_control.py": {
        57: "stdin", 58: "deadline_kills", 59: "connect_after_the_end"},
    "protocol/envd/test_envd_pty.py": {60: "size_and_resize"},
}
# Where a statement has more parts than one test of its file shows.
MORE = {
    "protocol/envd/test_envd_files.py": {42: "owners", 45: "ranges"},
    "protocol/envd/test_envd_rest.py": {40: "signed_urls", 60: "unknown_paths_and_methods"},
    "protocol/envd/test_envd_filesystem.py": {48: "stat_of_others", 50: "list_dir_refuses", 51: "move"},
    "protocol/envd/test_envd_watch.py": {53: "errors"},
    "protocol/envd/test_envd_process.py": {56: "unknown_command", 60: "byte_by_byte_request"},
    "protocol/envd/test_envd_process_control.py": {
        57: "close_stdin_twice", 58: "client_that_leaves_does_not_kill",
        59: "kill_ends_the_children_too"},
    "protocol/daemon/test_daemon_proxy.py": {32: "health"},
}


@functools.cache
def functions(file):
    """The definitions in a Python file; for a C file, its text."""
    text = (TESTS / file).read_text()
    if file.endswith(".c"):
        return text
    return {node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("number", range(1, 61))
def test_each_has_its_tests(number):
    named = [(file, names[number]) for where in (WHERE, MORE) for file, names in where.items()
             if number in names]
    assert named
    for file, name in named:
        wanted = name if file.endswith(".c") else f"test_{name}"
        assert wanted in functions(file), f"{file}: no {wanted}"
