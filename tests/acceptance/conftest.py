# SPDX-License-Identifier: Apache-2.0
"""The tests in bugs/ belong to the scenario: in the packages as they stand, they must fail."""

collect_ignore = ["bugs"]
