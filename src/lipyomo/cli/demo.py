"""``lipyomo demo``: the main job on a network that comes with the package."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import lipyomo.data
from lipyomo.cli.parser import main_parser

NETWORK = Path(lipyomo.data.__file__).resolve().parent / "iris.onnx"
"""A classifier of iris flowers: 4 measurements in centimetres, 3 species, 16 ReLUs."""
WORDS = ("--box", "0,8", "--norm", "linf", "--output-norm", "linf")


def run(words: Sequence[str]) -> int:
    """Run ``lipyomo demo`` with further options of the main job; returns the exit code."""
    began = time.monotonic()
    all_words = [str(NETWORK), *WORDS, *words]
    arguments = main_parser().parse_args(all_words)
    if not (arguments.json or arguments.quiet):
        print(f"$ lipyomo {shlex.join(all_words)}", file=sys.stderr)
    from lipyomo.cli.job import run as run_job

    return run_job(arguments, began)
