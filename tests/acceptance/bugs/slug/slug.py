"""Names for URLs, made from titles."""

import re


def slug(title):
    """Lower-case words joined by hyphens."""
    words = re.findall(r"[A-Za-z0-9]+", title)
    return "-".join(words).lower()
