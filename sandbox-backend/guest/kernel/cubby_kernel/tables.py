# SPDX-License-Identifier: Apache-2.0
"""The data of a pandas DataFrame: its columns as lists of JSON values."""
import datetime
import math

from .limits import DATA_CELLS_MAX


def plain(value):
    """Return a cell or coordinate as a JSON value. Missing values and NaN become null."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        if hasattr(value, "dtype") and value.dtype.kind in "mM":
            return None if str(value) == "NaT" else str(value)
        return plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return None if value != value else value.isoformat()
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    text = str(value)
    return None if text in ("NaT", "<NA>") else text


def frame_data(frame):
    """Return {column: values}, or None if the frame is too large to copy into every result."""
    if frame.shape[0] * frame.shape[1] > DATA_CELLS_MAX:
        return None
    return {
        str(name): [plain(v) for v in frame.iloc[:, i].tolist()] for i, name in enumerate(frame.columns)
    }
