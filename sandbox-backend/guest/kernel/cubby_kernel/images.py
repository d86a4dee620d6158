# SPDX-License-Identifier: Apache-2.0
"""Show the images that a run saves or shows with PIL, as E2B's code interpreter does.

Figures that matplotlib saves are not shown here: the shell shows each open figure at the end of a run.
"""
import functools
import os
import sys

from . import limits

_PNG_MODES = frozenset(("1", "L", "LA", "I", "I;16", "P", "RGB", "RGBA"))


def _displayable(image):
    """Return the image in a mode that PNG has, or None."""
    if image.mode in _PNG_MODES:
        return image
    try:
        return image.convert("RGB")
    except ValueError:
        return None


class _Screen:
    """Displays images, but only the first of a run: a program may save the frames of a film."""

    def __init__(self, shell):
        self._shell = shell
        self._run = None
        self._shown = 0

    def show(self, image):
        from IPython.display import display

        if self._run != self._shell.execution_count:
            self._run, self._shown = self._shell.execution_count, 0
        self._shown += 1
        if self._shown == limits.IMAGES_MAX + 1:
            print(f"the first {limits.IMAGES_MAX} images of this run are shown, and no more", file=sys.stderr)
        picture = _displayable(image) if self._shown <= limits.IMAGES_MAX else None
        if picture is not None:
            display(picture)


def _is_matplotlibs(frame):
    return frame.f_globals.get("__name__", "").partition(".")[0] == "matplotlib"


def watch(shell):
    """Make PIL's save() and show() display their image. matplotlib has imported PIL."""
    from PIL.Image import Image

    screen = _Screen(shell)
    original = Image.save

    @functools.wraps(original)
    def save(self, fp, *args, **kwargs):
        original(self, fp, *args, **kwargs)
        if isinstance(fp, (str, os.PathLike)) and not _is_matplotlibs(sys._getframe(1)):
            screen.show(self)

    Image.save = save
    Image.show = lambda self, *args, **kwargs: screen.show(self)
