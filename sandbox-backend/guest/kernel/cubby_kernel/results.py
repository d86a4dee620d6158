# SPDX-License-Identifier: Apache-2.0
"""Turn a MIME bundle of IPython into the members of a result line."""
import base64
import json

from .limits import RESULT_BYTES_MAX

_SMALL = 1024  # characters; a shorter text is not measured

MEMBERS = {
    "text/plain": "text",
    "text/html": "html",
    "text/markdown": "markdown",
    "image/svg+xml": "svg",
    "image/png": "png",
    "image/jpeg": "jpeg",
    "application/pdf": "pdf",
    "text/latex": "latex",
    "application/json": "json",
    "application/javascript": "javascript",
    "e2b/data": "data",
    "e2b/chart": "chart",
}


def _unquoted(text):
    """Return the repr of a string without its quotes."""
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    return text


def _plain(value):
    """Return a value for JSON: bytes become base64, as in all messages of Jupyter."""
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    return value


def from_bundle(bundle, is_main, quotes):
    """Return (result, notes): the members of a result line, and a sentence for each representation that is
    omitted because it is too large or not valid JSON. quotes: the text of a string keeps its quotes."""
    result, extra, notes, total = {}, {}, [], 0
    for mime, value in bundle.items():
        value = _plain(value)
        try:
            size = _SMALL if isinstance(value, str) and len(value) < _SMALL else len(json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass"))
        except (TypeError, ValueError) as e:
            notes.append(f"the {mime} of a result is left out: {e}")
            continue
        if total + size > RESULT_BYTES_MAX:
            before = f" with {total} bytes of others" if total else ""
            notes.append(
                f"the {mime} of a result is left out: its {size} bytes{before} are more than "
                f"{RESULT_BYTES_MAX}; print or save a part of it"
            )
            continue
        total += size
        if mime in MEMBERS:
            result[MEMBERS[mime]] = value
        else:
            extra[mime] = value
    if not quotes and isinstance(result.get("text"), str):
        result["text"] = _unquoted(result["text"])
    if extra:
        result["extra"] = extra
    result["is_main_result"] = is_main
    return result, notes
