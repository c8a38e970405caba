"""All tuning parameters of the searches for values and distances, in one place."""

from __future__ import annotations

from typing import NamedTuple

from lipyomo.base.arrays import TOGETHER
from lipyomo.base.numerics.params import PARAMS as NUMERICS


class Params(NamedTuple):
    """Parameters of the searches: what each trades off, and the range in which it does not matter.

    Attributes
    ----------
    together : int
        Nodes that are split together.  Larger batches cost less per node, but what their first
        nodes find comes too late for the others (8 to 32 perform alike).
    samples : int
        Points sampled first.
    starts, steps : int
        Number of the best samples from which ascents start, and their steps; derivatives are
        evaluated at `starts` points before they are bounded.
    grace : float
        Seconds for bounds of all functionals together once the time is up.
    quick : float
        Predicted seconds up to which a root is bounded in full even if the time is up: tighter
        bounds against time.
    newton : int
        Most programs for the distance of one node.
    cell_inputs : int
        Most inputs with which entries are bounded in batches of boxes: with six these do not end.
    price : float
        Price of violating an elastic row by its range, relative to the sum of all costs.
    cancelled : float
        Least size of values for tolerances, relative to the terms that cancel in them: linear
        programs cannot resolve smaller values, which would take forever.
    twins : float
        Largest difference of twins' pre-activations relative to their ranges: more rows against
        tighter ones.  For weights of eight bits it is 0.03, for unrelated units at least 0.07.
    """

    together: int = TOGETHER
    samples: int = 256
    starts: int = TOGETHER
    steps: int = 30
    grace: float = 0.5
    quick: float = 0.01
    newton: int = NUMERICS.interior_steps
    cell_inputs: int = 4
    price: float = 1e4
    cancelled: float = 1e-5
    twins: float = 0.05


PARAMS = Params()
