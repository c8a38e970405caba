"""A map as a self-contained HTML page that shows the values of the cell under the pointer."""

from __future__ import annotations

import json
import math
from html import escape
from pathlib import Path
from string import Template

from lipyomo.analyses.maps.result import CellMap
from lipyomo.base.arrays import IntArray
from lipyomo.base.decimals import down, up
from lipyomo.base.errors import ProblemError
from lipyomo.base.system.outputs import starting, written
from lipyomo.networks.naming import called

MOST = 250_000
"""Most cells of a page, which contains the values of each."""

START = "<!doctype html>\n<!-- a map of lipyomo -->\n"

KIND = starting("a page with a map", START.encode())

TEMPLATE = Path(__file__).with_name("page.html")
"""The page, with names for what is filled in; its colours are those of matplotlib's viridis."""


def write_page(found: CellMap, axes: IntArray, path: Path) -> None:
    """Write the page of a map in the plane of two inputs.

    Ends are rounded outwards to the digits shown.

    Raises
    ------
    ProblemError
        If the map has too many cells.
    OutputError
        If the file cannot or must not be written.
    """
    if len(found) > MOST:
        raise ProblemError(
            f"a page holds at most {MOST} cells, not {len(found)}.  Remedy: a picture (.png, .pdf)"
        )
    low, high = found.lower[:, axes].T.tolist(), found.upper[:, axes].T.tolist()
    columns = (
        *(low[0], high[0], low[1], high[1]),
        map(down, found.constant_lower.tolist()),
        (up(end) if math.isfinite(end) else "inf" for end in found.constant_upper.tolist()),
        found.gaps.tolist(),
        (end if math.isfinite(end) else None for end in found.constant_upper.tolist()),
        found.status.tolist(),
        ([float(f"{x:.9g}") for x in point] for point in found.witness.tolist()),
    )
    data = {
        "left": min(low[0]),
        "right": max(high[0]),
        "bottom": min(low[1]),
        "top": max(high[1]),
        "names": [called(axis, found.problem.network.input_names) for axis in axes.tolist()],
        "place": found.place[axes].tolist(),
        "cells": list(zip(*columns, strict=True)),
    }
    constants = found.of == "constants"
    about = found.problem.describe_norms() if constants else found.what
    title = f"{found.problem.network.name}: {about}"
    text = json.dumps(data, separators=(",", ":")).replace("</", "<\\/")
    page = Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        title=escape(title),
        summary=escape(found.summary()).replace("\n", "<br>"),
        data=text,
        one="constant" if constants else "value",
        what="Lipschitz constant" if constants else "size of the value",
    )
    with written(path, KIND) as stream:
        stream.write(page.encode())
