"""``lipyomo demo``: the main job on a network that is part of the package."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from lipyomo.base.system.imports import importing
from lipyomo.cli.parser import main_parser

NETWORK = Path(__file__).resolve().with_name("iris.onnx")
"""A copy of ``models/iris.onnx``, a classifier: 4 lengths in centimetres, 3 species, 16 ReLUs."""
SIDE = "0,8"
"""The default box, used unless one of the options in `DOMAINS` is given."""
DOMAINS = ("box", "ball", "polytope", "vnnlib", "everywhere")

DESCRIPTION = """\
The main job on a classifier of iris flowers that comes along, over the box [0, 8]^4.

Its options are those of the main job ('lipyomo --help'); NET is given, and the box
unless another domain is.
"""


def run(words: Sequence[str]) -> int:
    """Run ``lipyomo demo`` with further options of the main job; return the exit code."""
    began = time.monotonic()
    all_words = [str(NETWORK), *words]
    parser = main_parser(screen=f"usage: lipyomo demo [OPTIONS]\n\n{DESCRIPTION}")
    arguments = parser.parse_args(all_words)
    if all(getattr(arguments, name) in (None, False) for name in DOMAINS):
        all_words += ["--box", SIDE]
        arguments = parser.parse_args(all_words)
    if not (arguments.json or arguments.quiet):
        print(f"$ lipyomo {shlex.join(all_words)}", file=sys.stderr)
    with importing():
        from lipyomo.cli.job import run as run_job
    return run_job(arguments, began)
