"""``lipyomo difference``: the main job on what two networks differ by."""

from __future__ import annotations

import time
from collections.abc import Sequence

from lipyomo.cli.options import add, add_job
from lipyomo.cli.parser import Parser
from lipyomo.cli.words import file_path
from lipyomo.parallel import called_early

DESCRIPTION = """\
How much faster one network can move than another, the constant of the difference A - B, and how far
the two can be off, its largest value in the norm of the outputs.

Quantised, pruned and distilled networks, and controllers and the laws that they were fitted to:
the difference is one network to lipyomo, so that both can be far less than the sums of A's and B's.
Options and exit codes are those of the main job; --output and --fix are about both files.  What
--proof writes is checked by 'lipyomo verify PROOF A --minus B'.
"""

EXAMPLE = """\
example:
  lipyomo difference net.onnx net_int8.onnx --ball image.npy --radius 0.05 --clip 0,1
"""


def run(words: Sequence[str]) -> int:
    """Run ``lipyomo difference`` with the words after it; returns the exit code."""
    began = time.monotonic()
    parser = Parser("lipyomo difference", DESCRIPTION, EXAMPLE)
    add(parser, "NET", metavar="A", help="an ONNX file")
    parser.add_argument("minus", metavar="B", type=file_path, help="another one")
    add_job(parser)
    arguments = parser.parse_args(words)
    searches = arguments.dask is None and arguments.method in ("auto", "bnb")
    with called_early(arguments.threads if searches else 1, "lipyomo.search.relu.pipeline"):
        from lipyomo.cli.job import run as run_job

        return run_job(arguments, began)
