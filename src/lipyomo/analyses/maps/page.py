"""A map as a self-contained HTML page that shows the values of the cell under the pointer."""

from __future__ import annotations

import json
import math
from html import escape
from pathlib import Path

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

# The colours are those of matplotlib's viridis, whose lightness increases monotonically.
PAGE = (
    START
    + """\
<html lang="en">
<head>
<meta charset="utf-8">
<title>%(title)s</title>
<style>
body { font: 15px/1.4 system-ui, sans-serif; margin: 1.5rem; color: #1b1b1b; }
canvas { border: 1px solid #7f8c8d; cursor: crosshair; }
#cell { white-space: pre-line; min-height: 7.5em; font-variant-numeric: tabular-nums; }
#bar { width: 560px; height: 14px; display: block; border: none; }
.ends { width: 560px; display: flex; justify-content: space-between; }
</style>
</head>
<body>
<h1>%(title)s</h1>
<p>%(summary)s</p>
<p>
<label><input type="radio" name="what" value="constant" checked> %(one)s (upper end)</label>
<label><input type="radio" name="what" value="gap"> gap (%%)</label>
</p>
<canvas id="map" width="560" height="560" aria-label="heat map of the cells"></canvas>
<canvas id="bar" width="560" height="14"></canvas>
<div class="ends"><span id="least"></span><span id="name"></span><span id="most"></span></div>
<p id="cell">Point at a cell.</p>
<noscript>The picture needs JavaScript; nothing is loaded from elsewhere.</noscript>
<script>
"use strict";
const data = %(data)s;
const stops = [[68,1,84],[72,40,120],[62,74,137],[49,104,142],[38,130,142],[31,158,137],
  [53,183,121],[110,206,88],[181,222,43],[253,231,37]];
const map = document.getElementById("map"), bar = document.getElementById("bar");
function colour(share) {
  const at = Math.max(0, Math.min(1, share)) * (stops.length - 1);
  const k = Math.min(stops.length - 2, Math.floor(at)), part = at - k;
  return "rgb(" + stops[k].map((c, j) => Math.round(c + part * (stops[k + 1][j] - c))) + ")";
}
function across(x) { return (x - data.left) / (data.right - data.left) * map.width; }
function down(y) { return (data.top - y) / (data.top - data.bottom) * map.height; }
function draw() {
  const gap = document.querySelector("input[name=what]:checked").value === "gap";
  const values = data.cells.map(cell => gap ? 100 * cell[6] : cell[7]);
  const top = values.reduce((a, b) => b === null ? a : Math.max(a, b), 0);
  const most = top > (gap ? 1e-4 : 0) ? top : 1;  // gaps of exact cells are rounding alone
  const pen = map.getContext("2d");
  pen.clearRect(0, 0, map.width, map.height);
  data.cells.forEach((cell, k) => {
    const x = across(cell[0]), y = down(cell[3]);
    pen.fillStyle = values[k] === null ? "white" : colour(values[k] / most);
    pen.fillRect(x, y, across(cell[1]) - x + 0.5, down(cell[2]) - y + 0.5);
  });
  const x = across(data.place[0]), y = down(data.place[1]);
  pen.beginPath(); pen.arc(x, y, 5, 0, 7); pen.fillStyle = "white"; pen.fill();
  pen.strokeStyle = "#1b1b1b"; pen.lineWidth = 2; pen.stroke();
  const ruler = bar.getContext("2d");
  for (let k = 0; k < bar.width; k++) {
    ruler.fillStyle = colour(k / bar.width); ruler.fillRect(k, 0, 1, bar.height);
  }
  document.getElementById("least").textContent = "0";
  document.getElementById("most").textContent = most.toPrecision(4);
  document.getElementById("name").textContent = gap ? "gap (%%)" : "%(what)s";
}
function find(x, y) {
  return data.cells.findIndex(c => c[0] <= x && x <= c[1] && c[2] <= y && y <= c[3]);
}
map.addEventListener("mousemove", event => {
  const box = map.getBoundingClientRect();
  const x = data.left + (event.clientX - box.left) / box.width * (data.right - data.left);
  const y = data.top - (event.clientY - box.top) / box.height * (data.top - data.bottom);
  const k = find(x, y);
  if (k < 0) { return; }
  const c = data.cells[k];
  document.getElementById("cell").textContent = "cell " + k + ": " + c[8] +
    "\\n%(one)s in [" + c[4] + ", " + c[5] + "], gap " + (100 * c[6]).toPrecision(3) + " %%" +
    "\\n" + data.names[0] + " in [" + c[0] + ", " + c[1] + "], " +
    data.names[1] + " in [" + c[2] + ", " + c[3] + "]\\nattained at (" + c[9].join(", ") + ")";
});
document.querySelectorAll("input").forEach(input => input.addEventListener("change", draw));
draw();
</script>
</body>
</html>
"""
)


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
    page = PAGE % {
        "title": escape(title),
        "summary": escape(found.summary()).replace("\n", "<br>"),
        "data": text,
        "one": "constant" if constants else "value",
        "what": "Lipschitz constant" if constants else "size of the value",
    }
    with written(path, KIND) as stream:
        stream.write(page.encode())
