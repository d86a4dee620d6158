# SPDX-License-Identifier: Apache-2.0
"""Image results saved as files: the request's figures_dir."""
import base64
import os

_KINDS = (("png", "png"), ("jpeg", "jpg"), ("svg", "svg"))


def save(folder, result):
    """Save the image of a result in a new file. Return its path, or None without an image.

    Raise OSError or ValueError on failure.
    """
    for member, suffix in _KINDS:
        value = result.get(member)
        if not isinstance(value, str):
            continue
        data = value.encode() if member == "svg" else base64.b64decode(value)
        os.makedirs(folder, exist_ok=True)
        number = 1 + sum(name.startswith("figure-") for name in os.listdir(folder))
        while True:
            path = os.path.join(folder, f"figure-{number}.{suffix}")
            try:
                with open(path, "xb") as f:
                    f.write(data)
                return path
            except FileExistsError:
                number += 1
    return None
