# SPDX-License-Identifier: Apache-2.0
"""The data of a matplotlib figure in the form of charts of E2B's SDKs: one for each axes with content.

A chart has type, title and elements; all but pies have the labels of both axes and the units in them
("Time (s)"); lines and points also have both axes' ticks and scales. Several axes make a superchart.
"""
import functools
import re

from .limits import DATA_CELLS_MAX
from .tables import plain

_UNIT = re.compile(r"\(([^()]+)\)\s*$")
_BOXES = "_cubby_boxes"


class _TooLarge(Exception):
    pass


def watch():
    """Make figures provide their charts. The drawing of a box plot does not contain its numbers, so they are
    recorded when it is drawn."""
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    # A method, since matplotlib removes functions for this type from all formatters when a format is chosen.
    Figure._repr_e2b_chart_ = from_figure

    original = Axes.bxp

    @functools.wraps(original)
    def bxp(self, bxpstats, *args, **kwargs):
        setattr(self, _BOXES, getattr(self, _BOXES, []) + list(bxpstats))
        return original(self, bxpstats, *args, **kwargs)

    Axes.bxp = bxp


def _unit(label):
    found = _UNIT.search(label)
    return found.group(1) if found else None


def _labels(axes):
    x, y = axes.get_xlabel(), axes.get_ylabel()
    return {
        "x_label": x or None,
        "y_label": y or None,
        "x_unit": _unit(x),
        "y_unit": _unit(y),
    }


def _name(artist):
    label = str(artist.get_label())
    return "" if label.startswith("_") else label


# ---- axes of lines and points
def _scale(axis):
    converter = type(axis.converter).__name__
    if "Date" in converter or "Datetime" in converter or "Period" in converter:
        return "datetime"
    if "Category" in converter:
        return "categorical"
    return axis.get_scale()


def _ticks(axis, scale):
    ticks = [float(t) for t in axis.get_ticklocs()]
    if scale == "datetime":
        from matplotlib.dates import num2date

        ticks = [num2date(t).isoformat() for t in ticks]
    return ticks, [t.get_text() for t in axis.get_ticklabels()]


def _point_axes(axes):
    chart = _labels(axes)
    for name, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        scale = _scale(axis)
        ticks, labels = _ticks(axis, scale)
        chart |= {f"{name}_ticks": ticks, f"{name}_tick_labels": labels, f"{name}_scale": scale}
    return chart


def _listed(values):
    values = list(values)
    if len(values) > DATA_CELLS_MAX:
        raise _TooLarge
    return [plain(v) for v in values]


def _lines(axes):
    elements = []
    for line in axes.lines:
        xs, ys = _listed(line.get_xdata(orig=True)), _listed(line.get_ydata(orig=True))
        elements.append({"label": _name(line), "points": [list(p) for p in zip(xs, ys)]})
    return elements


def _positions(axis, scale, values):
    """Return coordinates as the axis labels them: dates and categories instead of numbers."""
    if scale == "datetime":
        from matplotlib.dates import num2date

        return [num2date(v).isoformat() for v in values]
    if scale == "categorical" and axis.units is not None:
        names = {number: name for name, number in axis.units._mapping.items()}
        return [names.get(v, plain(v)) for v in values]
    return _listed(values)


def _scatters(axes):
    elements = []
    for collection in _points(axes):
        offsets = collection.get_offsets()
        xs = _positions(axes.xaxis, _scale(axes.xaxis), offsets[:, 0].tolist())
        ys = _positions(axes.yaxis, _scale(axes.yaxis), offsets[:, 1].tolist())
        elements.append({"label": _name(collection), "points": [list(p) for p in zip(xs, ys)]})
    return elements


def _points(axes):
    from matplotlib.collections import PathCollection

    return [c for c in axes.collections if isinstance(c, PathCollection) and len(c.get_offsets())]


# ---- bars, pies, boxes
def _bars(axes):
    from matplotlib.container import BarContainer

    elements = []
    for container in axes.containers:
        if not isinstance(container, BarContainer):
            continue
        upright = container.orientation != "horizontal"
        axis = axes.xaxis if upright else axes.yaxis
        names = {
            round(float(at), 9): t.get_text() for at, t in zip(axis.get_ticklocs(), axis.get_ticklabels())
        }
        for patch in container.patches:
            middle = patch.get_x() + patch.get_width() / 2 if upright else patch.get_y() + patch.get_height() / 2
            value = patch.get_height() if upright else patch.get_width()
            label = names.get(round(float(middle), 9)) or f"{float(middle):g}"
            elements.append({"label": label, "group": _name(container), "value": plain(value)})
    return elements


def _rounded(angle):
    """Return an angle without the noise of matplotlib's 32-bit floats: 324, not 323.99999."""
    return plain(float(f"{angle:.6g}"))


def _wedges(axes):
    from matplotlib.patches import Wedge

    return [
        {"label": _name(w), "angle": _rounded(abs(w.theta2 - w.theta1)), "radius": plain(w.r)}
        for w in axes.patches
        if isinstance(w, Wedge)
    ]


def _boxes(axes):
    names = [t.get_text() for t in axes.get_xticklabels()]
    upright = bool(any(names))
    if not upright:
        names = [t.get_text() for t in axes.get_yticklabels()]
    elements = []
    for i, box in enumerate(getattr(axes, _BOXES, ())):
        label = box.get("label") or (names[i] if i < len(names) else str(i + 1))
        elements.append(
            {
                "label": str(label),
                "min": plain(box["whislo"]),
                "first_quartile": plain(box["q1"]),
                "median": plain(box["med"]),
                "third_quartile": plain(box["q3"]),
                "max": plain(box["whishi"]),
                "outliers": _listed(box.get("fliers", ())),
            }
        )
    return elements


# The first match wins: box plots and bar charts are drawn with lines, too.
_KINDS = (
    ("box_and_whisker", _boxes, _labels),
    ("pie", _wedges, lambda axes: {}),
    ("bar", _bars, _labels),
    ("line", _lines, _point_axes),
    ("scatter", _scatters, _point_axes),
)


def _from_axes(axes):
    chart = {"type": "unknown", "title": axes.get_title() or None, "elements": []}
    for kind, elements_of, about in _KINDS:
        elements = elements_of(axes)
        if elements:
            return chart | {"type": kind, "elements": elements} | about(axes)
    return chart


def from_figure(figure):
    """Return the chart, or None if the figure has too many points to copy into every result."""
    shown = [a for a in figure.axes if a.get_label() != "<colorbar>"]
    try:
        charts = [_from_axes(axes) for axes in shown]
    except _TooLarge:
        return None
    if len(charts) == 1:
        return charts[0]
    title = figure._suptitle.get_text() if figure._suptitle else None
    return {"type": "superchart" if charts else "unknown", "title": title, "elements": charts}
