# SPDX-License-Identifier: Apache-2.0
"""Maps the 80 statements about an MCP server, against which Cubby was built, to the tests that show
them.

1-26 stdio, handshake era; 27-38 stdio, 2026-07-28; 39-56 HTTP, handshake era; 57-78 HTTP,
2026-07-28; 79 official clients; 80 mutated messages. Each test carries the number in a comment.
"""

import pathlib

import pytest

TESTS = pathlib.Path(__file__).parents[2]
WHERE = {
    "protocol/mcp/test_mcp_legacy.py": {
        1: "initialize_says_who_and_what", 2: "known_versions_are_echoed",
        3: "unknown_versions_get_the_latest_legacy_one", 4: "bad_initialize", 5: "before_initialize",
        6: "notifications_are_not_answered", 7: "tools_list", 8: "a_cursor_that_was_not_issued",
        9: "bad_call", 10: "missing_argument", 11: "bad_call", 14: "ids_are_echoed", 16: "batch"},
    "protocol/mcp/test_mcp_tools.py": {
        12: "command", 13: "unknown_and_ended_ids_are_different", 19: "cancel",
        20: "cancel_what_is_not_there", 26: "stdout_of_the_server_is_not_reached"},
    "protocol/mcp/test_mcp_progress.py": {17: "output_comes_as_it_is_printed", 18: "none_unasked"},
    "protocol/mcp/test_mcp_stdio.py": {15: "not_json", 25: "end_of_input_ends_commands"},
    "protocol/mcp/test_mcp_features.py": {
        21: "log_level", 22: "unknown_resource", 23: "completion", 24: "prompts",
        34: "unknown_resource_modern"},
    "protocol/mcp/test_mcp_modern.py": {
        27: "discover_comes_first", 28: "both_eras_on_one_pipe", 29: "unsupported_version",
        30: "meta_without_capabilities", 31: "tools_list", 32: "tools_call",
        33: "removed_and_absent_methods", 35: "listen", 36: "listen_to_nothing_said",
        37: "cancelled_call_is_silent"},
    "protocol/mcp/test_mcp_http_legacy.py": {
        39: "initialize", 40: "notifications_are_accepted", 41: "delete", 42: "version_header",
        43: "unknown_method", 44: "content_type", 45: "batch", 46: "method", 48: "get",
        49: "progress", 50: "no_priming_before_2025_11_25", 51: "resumption", 52: "cancelled",
        53: "two_at_once"},
    "protocol/mcp/test_mcp_http_guard.py": {47: "origin"},
    "protocol/mcp/test_mcp_http_auth.py": {55: "without_a_token", 56: "sessions_are_of_their_token"},
    "protocol/mcp/test_mcp_http_modern.py": {
        57: "discover", 58: "other_methods", 59: "a_header_is_missing",
        60: "a_header_says_something_else", 61: "header_names_have_no_case_and_values_do",
        62: "names_may_be_encoded", 63: "bad_meta", 64: "unknown_method", 65: "unknown_tool",
        67: "progress", 68: "who_hangs_up_cancels", 69: "notifications", 70: "listen",
        73: "input_responses_where_none_belong", 74: "caching_hints", 76: "tasks_are_not_there",
        77: "a_legacy_task_is_ignored"},
    "protocol/mcp/test_mcp_http_fixtures.py": {
        38: "questions_on_a_pipe", 54: "question", 66: "missing_capability",
        71: "argument_in_a_header", 72: "input_required"},
    "protocol/mcp/test_mcp_http_both.py": {75: "interleaved"},
    "conformance/test_conformance.py": {78: "conformance"},
    "clients/test_clients.py": {79: "tour"},
    "protocol/mcp/test_mcp_mutations.py": {80: "mutated_bodies"},
}


@pytest.mark.parametrize("number", range(1, 81))
def test_each_has_its_test(number):
    (file, name), = [(f, names[number]) for f, names in WHERE.items() if number in names]
    assert f"\ndef test_{name}(" in (TESTS / file).read_text()
