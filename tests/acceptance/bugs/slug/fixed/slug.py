"""Names for URLs, made from titles."""

import re
import unicodedata


def slug(title):
    """Lower-case words joined by hyphens."""
    words = re.findall(r"[^\W_]+", unicodedata.normalize("NFKC", title))
    return "-".join(words).lower()
