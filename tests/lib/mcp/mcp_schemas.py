# SPDX-License-Identifier: Apache-2.0
"""The schemas of the shipped tools, and results that are checked against them."""

import json
import pathlib

import jsonschema
from harness import text_of

SCHEMAS = {t["name"]: t for t in json.loads(
    (pathlib.Path(__file__).parents[3] / "schemas/tools.json").read_text())}
ON_REQUEST = ["upload_directory", "download_directory", "build_template"]  # with --project-dir, with --allow-builds
OFFERED = [name for name in SCHEMAS if name not in ON_REQUEST]


def checked(server, name, /, **arguments):
    """(structuredContent, text, all content blocks) of a call that succeeds."""
    result = server.result(name, **arguments)
    assert not result.get("isError"), result
    jsonschema.validate(result["structuredContent"], SCHEMAS[name]["outputSchema"])
    return result["structuredContent"], text_of(result), result["content"]
