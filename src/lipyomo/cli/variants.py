"""The main job in other words: ``lipyomo demo`` and ``lipyomo difference``."""

from __future__ import annotations

import shlex
import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from lipyomo.base.system.imports import importing
from lipyomo.cli.options import add_options
from lipyomo.cli.parser import Parser, add_job, main_parser

NETWORK = Path(__file__).resolve().with_name("iris.onnx")
"""A copy of ``models/iris.onnx``, a classifier: 4 lengths in centimetres, 3 species, 16 ReLUs."""
SIDE = "0,8"
"""The default box, used unless one of the options in `DOMAINS` is given."""
DOMAINS = ("box", "ball", "polytope", "vnnlib", "everywhere")

OF_DEMO = """\
The main job on a classifier of iris flowers that comes along, over the box [0, 8]^4.

Its options are those of the main job ('lipyomo --help'); NET is given, and the box
unless another domain is.
"""

OF_DIFFERENCE = """\
How much faster one network can move than another (the constant of A - B), and how
far the two can be off (its largest value in the norm of the outputs).

Options and exit codes are those of the main job, --output-node and --fix for both;
'lipyomo verify PROOF A --minus B' checks a proof.  Quantised (QDQ): values only.
"""

EXAMPLE = """\
example:
  lipyomo difference net.onnx net_int8.onnx --ball image.npy --radius 0.05
"""


def run_demo(words: Sequence[str]) -> int:
    """Run ``lipyomo demo`` with further options of the main job; return the exit code."""
    began = time.monotonic()
    all_words = [str(NETWORK), *words]
    parser = main_parser(screen=f"usage: lipyomo demo [OPTIONS]\n\n{OF_DEMO}")
    arguments = parser.parse_args(all_words)
    if all(getattr(arguments, name) in (None, False) for name in DOMAINS):
        all_words += ["--box", SIDE]
        arguments = parser.parse_args(all_words)
    if not (arguments.json or arguments.quiet):
        print(f"$ lipyomo {shlex.join(all_words)}", file=sys.stderr)
    return _run(arguments, began)


def run_difference(words: Sequence[str]) -> int:
    """Run ``lipyomo difference`` with these arguments; return the exit code."""
    began = time.monotonic()
    parser = Parser("lipyomo difference", OF_DIFFERENCE, EXAMPLE)
    add_options(parser, "NET", metavar="A", help="an ONNX file")
    add_options(parser, "NET", metavar="B", dest="minus", help="another one")
    add_options(parser, "--config")
    add_job(parser)
    arguments = parser.parse_args(words)
    return _run(arguments, began)


def _run(arguments: Namespace, began: float) -> int:
    """Run the main job, which is imported here, so that --help and wrong options are fast."""
    with importing():
        from lipyomo.cli.job import run
    return run(arguments, began)
