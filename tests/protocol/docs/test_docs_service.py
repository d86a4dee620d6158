# SPDX-License-Identifier: Apache-2.0
"""The systemd unit: the commands in its first lines give the unit's user everything that the unit
relies on.
"""

import pathlib
import re

UNIT = pathlib.Path(__file__).parents[3] / "sandbox-backend/daemon/cubbyd.service"


def test_the_template_is_built_with_the_groups_of_the_service():
    """The build runs outside the unit, as root, so it may choose KVM. The service's user needs that group too, also
    for builds of its own."""
    text = UNIT.read_text(encoding="utf-8")
    comment, unit = text.split("[Unit]")
    user = re.search(r"^User=(\w+)$", unit, re.M)[1]
    groups = re.search(r"^SupplementaryGroups=(.+)$", unit, re.M)[1].split()
    assert groups
    for group in groups:
        assert comment.index(f"adduser {user} {group}") < comment.index("cubby setup --service"), group
