"""``lipyomo difference``: the main job on the difference of two networks."""

from __future__ import annotations

import time
from collections.abc import Sequence

from lipyomo.base.system.imports import importing
from lipyomo.cli.options import add_options
from lipyomo.cli.parser import Parser, add_job

DESCRIPTION = """\
How much faster one network can move than another (the constant of A - B), and how
far the two can be off (its largest value in the norm of the outputs).

Options and exit codes are those of the main job, --output-node and --fix for both;
'lipyomo verify PROOF A --minus B' checks a proof.  Quantised (QDQ): values only.
"""

EXAMPLE = """\
example:
  lipyomo difference net.onnx net_int8.onnx --ball image.npy --radius 0.05
"""


def run(words: Sequence[str]) -> int:
    """Run ``lipyomo difference`` with these arguments; return the exit code."""
    began = time.monotonic()
    parser = Parser("lipyomo difference", DESCRIPTION, EXAMPLE)
    add_options(parser, "NET", metavar="A", help="an ONNX file")
    add_options(parser, "NET", metavar="B", dest="minus", help="another one")
    add_options(parser, "--config")
    add_job(parser)
    arguments = parser.parse_args(words)
    with importing():
        from lipyomo.cli.job import run as run_job
    return run_job(arguments, began)
