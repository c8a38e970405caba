"""``lipyomo map``: constants, or sizes of values, of thousands of cells, with a picture."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lipyomo.analyses.maps import (
    Cells,
    MapSettings,
    cells_of,
    grid,
    map_cells,
    refine_cells,
)
from lipyomo.analyses.maps.plot import PAGE, plane_of, plot_map
from lipyomo.analyses.maps.run import MapKeywords
from lipyomo.analyses.maps.store import ENDINGS
from lipyomo.base.system.outputs import check_output, shown
from lipyomo.cli.codes import Exit
from lipyomo.cli.interrupt import Leaving
from lipyomo.cli.live import watched
from lipyomo.cli.options import add_norms, add_options
from lipyomo.cli.parser import Parser
from lipyomo.cli.pde import residual_of
from lipyomo.cli.problems import problem_on
from lipyomo.cli.settings import given
from lipyomo.cli.source import network_given_by
from lipyomo.cli.streams import warn, wrote
from lipyomo.cli.values import read_picture
from lipyomo.cli.words import UsageError, file_path
from lipyomo.networks.derivatives.gradients import gradient
from lipyomo.networks.naming import by_name
from lipyomo.networks.network import Network
from lipyomo.problems.domains import Box
from lipyomo.problems.domains.base import read_vector
from lipyomo.problems.norms import DUAL

EPILOG = """\
exit codes: 0 every cell is exact, or within --gap (or --until); 1 wrong input;
2 some are open (with --rows, the same command goes on)
example: lipyomo map net.onnx --box 0,1 --cells 64x64 --plot map.png
"""


def run(words: Sequence[str]) -> int:
    """Run ``lipyomo map`` with these arguments; return the exit code."""
    arguments = _parser().parse_args(words)
    _check(arguments)
    with Leaving():
        named = network_given_by(arguments)
        where = _cells(arguments, named.network)
        named.check(where.hull)
        network, of, output_norm = _asked(arguments, named.network)
    if arguments.plot is not None:
        plane_of(where)
    asked = Namespace(**vars(arguments) | {"output_norm": output_norm})
    problem = problem_on(asked, network, where.hull)
    chosen = MapSettings(**given(arguments, MapKeywords))
    with watched(chosen, arguments.quiet) as settings:
        if arguments.until is None:
            found = map_cells(problem, where, settings, arguments.rows, of=of)
        else:
            case = problem, where, arguments.until, settings, arguments.rows
            found = refine_cells(*case, largest=arguments.largest, of=of)
    if arguments.json:
        print(json.dumps(found.to_dict(), allow_nan=False))
    else:
        print(found.summary())
    if found.unwritten:
        warn(found.unwritten)
    drawn = arguments.plot is None or wrote(lambda: plot_map(found, arguments.plot))
    if found.unwritten or not drawn:
        return Exit.FAILED
    return Exit.DONE if found.done else Exit.OPEN


def _parser() -> Parser:
    about = "Local Lipschitz constants, or sizes of values, of thousands of cells, in batches."
    parser = Parser("lipyomo map", about, EPILOG)
    add_options(parser, "NET", "--config", "--output-node", "--fix")
    asked = parser.add_argument_group("what (Lipschitz constants, if nothing is said)")
    text = "sizes of an expression: see lipyomo residual --help"
    add_options(asked, "--pde", help=text)
    add_options(asked, "--curvature", "--values")
    cells = parser.add_argument_group("cells (--box and --cells, or --boxes)")
    add_options(cells, "--box", help="the box that is divided: numbers, or .npy files")
    add_options(cells, "--cells", "--axes", "--at", "--boxes")
    add_norms(parser)
    effort = parser.add_argument_group("effort")
    add_options(effort, "--gap", help="leave a cell at this relative gap: 0.05 or 5%%")
    add_options(effort, "--until", "--largest")
    add_options(effort, "--time-limit", help="seconds for the map")
    add_options(effort, "--workers", default=1, help="processes (1)")
    add_options(effort, "--dask", help="a dask scheduler to run on instead")
    answer = parser.add_argument_group("answer")
    text = f"cells: {', '.join(ENDINGS)}; a second run goes on"
    add_options(answer, "--rows", type=file_path, help=text)
    add_options(answer, "--plot", type=_picture, help="draw it: .png, .pdf, .svg, or .html")
    add_options(answer, "--json", help="one JSON object on stdout: the map as a whole")
    add_options(answer, "--quiet", "--debug")
    return parser


def _asked(arguments: Namespace, network: Network) -> tuple[Network, str, Any]:
    """Return the network to map, the quantity, and the output norm."""
    norm = arguments.output_norm
    if arguments.pde is not None:
        return residual_of(network, arguments.pde), "values", norm or "linf"
    if arguments.curvature:
        if network.output_dim > 1:
            raise UsageError(
                f"--curvature: the network has {network.output_dim} outputs.  Remedy: "
                "--output-node, or a network of one of them"
            )
        return gradient(network), "constants", DUAL[arguments.norm or "linf"]
    return network, "values" if arguments.values else "constants", norm


def _check(arguments: Namespace) -> None:
    if (arguments.pde is not None) + arguments.curvature + arguments.values > 1:
        raise UsageError("--pde, --curvature and --values ask for different things: give one")
    if arguments.curvature and arguments.output_norm is not None:
        raise UsageError("--curvature measures gradients in the dual of --norm: no --output-norm")
    if (arguments.boxes is None) == (arguments.box is None):
        raise UsageError("no cells were given.  Remedy: --box LO,HI --cells 64x64, or --boxes FILE")
    if arguments.boxes is None and arguments.cells is None:
        raise UsageError("--box needs --cells, such as 64x64")
    for name in ("cells", "axes", "at"):
        if arguments.boxes is not None and getattr(arguments, name) is not None:
            raise UsageError(f"--{name} divides a --box; --boxes are cells already")
    if arguments.largest and arguments.until is None:
        raise UsageError("--largest needs --until")
    if arguments.until is not None and arguments.gap:
        raise UsageError("--gap leaves cells as they are, --until halves them: give one")
    if arguments.rows is not None and arguments.rows.suffix not in ENDINGS:
        raise UsageError(f"--rows: {shown(arguments.rows)} should end in {', '.join(ENDINGS)}")


def _cells(arguments: Namespace, network: Network) -> Cells:
    """Return the cells described by the options."""
    d = network.input_dim
    if arguments.boxes is not None:
        return cells_of(arguments.boxes)
    first, last = arguments.box
    box = Box(first, last, d)
    asked = range(len(arguments.cells)) if arguments.axes is None else arguments.axes
    named = network.input_names, network.input_parts
    axes = tuple(by_name(list(asked), *named, "--axes", UsageError))
    low, high = box.lower.copy(), box.upper.copy()
    if arguments.at is not None:
        others = np.setdiff1d(np.arange(d), axes)
        place = read_vector(arguments.at, d, "--at")
        low[others] = high[others] = place[others]
    return grid(low, high, arguments.cells, axes)


def _picture(text: str) -> Path:
    """Read the name of a picture or page."""
    if not text.endswith(".html"):
        return read_picture(text, "--plot")
    check_output(text, PAGE)
    return Path(text)
