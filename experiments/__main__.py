"""``python -m experiments NAME ...``: a table or figure of a paper, or a measurement.

- ``table1`` to ``table5``, ``figure1``, ``figure5`` to ``figure7``: those of the LipMIP paper
- ``exact``: the exact methods side by side
- ``families``: the search family by family, also beside another version
- ``hard``: hard networks over several seeds, also beside an earlier commit
- ``proofs``: what it costs to write and to check proofs
- ``maps``: cells in batches beside single solves
- ``smooth``: smooth networks that other tools only bound from above
- ``methods``: upper bounds beside the published figures
- ``build``: time and memory to build Pyomo models
- ``mip``: the MIP route beside the plain big-M form
- ``adversarial``: worst margins of images, beside OMLT and gurobi-machinelearning
- ``scale``: networks of 100 to 5,000 units, beside bound propagation
- ``few``: few inputs on wide domains, ACAS Xu
- ``networks``: train networks of that size
- ``solvers``: model transfer, time to optimality and agreement of solvers
- ``robustness``: certified accuracy, constants by activation, cost of decisions and sweeps
- ``control``: closed loops of a plant and a neural policy over several steps
- ``picture``: the pictures of the README
- ``glossary``: the pictures of the glossary and of the tutorial
- ``elementary``: values of elementary functions, with which those of the platform are compared
- ``report``: how far every estimator is from the truth, as one PDF
- ``python -m experiments.benchmark`` is LipBench: networks whose constants are known
- ``gallery``: every method on one network, with pictures, for the documentation

``python -m experiments NAME --help`` shows the options of each.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

from lipyomo.cli.main import guarded
from lipyomo.cli.words import UsageError

MEASUREMENTS = (
    "exact",
    "families",
    "hard",
    "proofs",
    "maps",
    "smooth",
    "methods",
    "build",
    "mip",
    "adversarial",
    "scale",
    "few",
    "networks",
    "solvers",
    "robustness",
    "control",
    "picture",
    "glossary",
    "elementary",
    "report",
    "gallery",
)


def run(words: Sequence[str]) -> int:
    """Run the experiment that the first word names.

    Returns
    -------
    int
        Exit code, as of ``lipyomo``.

    Raises
    ------
    UsageError
        If there is no such experiment.
    """
    name = words[0] if words else "--help"
    if name in ("-h", "--help"):
        print((__doc__ or "").strip())
        return 0
    if name in MEASUREMENTS:
        import_module(f"experiments.{name}").main(words[1:])
        return 0
    from experiments.papers import NAMES
    from experiments.papers.command import run as make_again

    if name.startswith("-") or name not in NAMES:
        known = ", ".join((*NAMES, *MEASUREMENTS))
        raise UsageError(f"there is no experiment '{name}'.  Remedy: use one of {known}")
    return make_again(words)


if __name__ == "__main__":
    sys.exit(guarded(run, sys.argv[1:]))
