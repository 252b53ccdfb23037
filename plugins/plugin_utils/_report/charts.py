# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Draws curves with matplotlib, if it is installed, as images that can be embedded in a page."""

from __future__ import annotations

import base64
import importlib.util
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

SIZE = (5.6, 2.6)
COLOUR = "#1f77b4"

# Keep text as text in the image, and make the output reproducible.
STYLE: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "report", "font.size": 9, "axes.grid": True, "grid.alpha": 0.3}

# If the last value is below this fraction of the maximum, as is typical of losses, the axis is logarithmic.
LOGARITHMIC = 0.01

UNITS = ((7200, 3600, "hours"), (120, 60, "minutes"), (0, 1, "seconds"))


def can_draw() -> bool:
    """Return whether matplotlib is installed. The import takes a second, so only the drawing imports it."""
    return importlib.util.find_spec("matplotlib") is not None


def curve(found: Mapping[str, Any], axis: str) -> str | None:
    """Return a chart of a curve over its `steps` or `times` as a data URL, or None if matplotlib is not installed."""
    places, label = scaled(found["times"]) if axis == "times" else (found["steps"], "step")
    return _image(places, label, found["means"], found["lows"], found["highs"])


def rates(found: Mapping[str, Any]) -> str | None:
    """Return a chart of steps per second over time as a data URL, or None if matplotlib is not installed."""
    places, label = scaled(found["times"])
    return _image(places, label, found["rates"], found["rates"], found["rates"], from_zero=True)


def scaled(times: Sequence[float]) -> tuple[list[float], str]:
    """Return the times in a unit that is appropriate for the last value, and the name of the unit."""
    last = times[-1] if times else 0.0
    size, name = next((size, name) for least, size, name in UNITS if last >= least or not least)
    return [time / size for time in times], name


def pieces(places: Sequence[float]) -> list[slice]:
    """Return the parts of a curve in which steps increase. A script that resumes from a checkpoint repeats a few steps."""
    turns = [index for index in range(1, len(places)) if places[index] < places[index - 1]]
    return [slice(start, end) for start, end in zip([0, *turns], [*turns, len(places)])]


def parted(values: Sequence[float], parts: Sequence[slice]) -> list[float]:
    """Return the values with a gap after each part. One line with gaps is faster to draw than one line for each part."""
    return [value for part in parts for value in (*values[part], math.nan)]


def _image(
    places: Sequence[float],
    label: str,
    means: Sequence[float],
    lows: Sequence[float],
    highs: Sequence[float],
    from_zero: bool = False,
) -> str | None:
    if not can_draw():
        return None
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(STYLE):
        figure = Figure(figsize=SIZE, layout="constrained")
        axes = figure.subplots()
        parts = pieces(places)
        across = parted(places, parts)
        marked = [index + gaps for gaps, part in enumerate(parts) if part.stop - part.start < 50 for index in range(part.start, part.stop)]
        axes.fill_between(across, parted(lows, parts), parted(highs, parts), color=COLOUR, alpha=0.2, linewidth=0)
        axes.plot(across, parted(means, parts), color=COLOUR, linewidth=1.2, marker=".", markevery=marked)
        axes.set_xlabel(label)
        if min(lows) > 0 and means[-1] < LOGARITHMIC * max(highs):
            axes.set_yscale("log")
        if from_zero:
            axes.set_ylim(0, 1.1 * max(highs))
        content = io.BytesIO()
        figure.savefig(content, format="svg", metadata={"Date": None})
    return "data:image/svg+xml;base64," + base64.b64encode(content.getvalue()).decode()
