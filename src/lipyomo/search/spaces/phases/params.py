"""All tuning parameters of the search over phases, in one place."""

from __future__ import annotations

from typing import NamedTuple

from lipyomo.base.arrays import TOGETHER
from lipyomo.base.system.memory import KEPT


class Params(NamedTuple):
    """Parameters of the search: what each trades off, and the range in which it does not matter.

    Attributes
    ----------
    slack : float
        Relative distance from the incumbent at which a bound counts as met: nodes against the last
        digits.  It must exceed the rounding error of proofs, and be below the tolerance of `exact`.
    together : int
        Nodes of the common size that are split together.  Larger batches cost less per node, but
        what their first nodes find comes too late for the others (8 to 32 perform alike).
    common : int
        The common size of a node: unstable units squared times min(inputs, unstable units).
    long_root : float
        Predicted seconds of the root's bound from which on it is lowered in steps that each give a
        valid bound, and targets of nodes are only lowered until they are no longer the worst.
    switched : float
        Predicted seconds of the root's bound from which on all nodes are bounded with switches that
        depend on the inputs, if the problem has such bounds.  Networks with 784 inputs and 43, 60
        and 84 unstable units (0.1 to 0.35) do as well or better with tangents alone.
    many : int
        Number of unstable units from which on `long_root` is enough for that: small convolutions
        end with 0.86 of the gap.
    large_part, most_large : float
        On large networks, heuristics at the root run longer by the first number times the node size
        relative to the common one, which is capped by the second: incumbents against bounds.  Half
        of it precedes the root's slow bounds, which profit from a better incumbent.
    large_node : float
        Most times that later searches for points are longer on large networks, whose nodes take
        longer; they never evaluate more points than those of small ones.  Where the optimum is
        found late, trees end that are open without it.
    ascent_steps, ascent_cold : int
        Steps of dual ascent for the bounds of a node, and the factor on them without a warm start:
        time per node against nodes (with eight steps and two rounds of near bounds, large trees
        have twice the nodes).
    near : tuple of float
        One more round of ascent for each of these shares: it improves bounds that miss deciding
        their unit by at most this share of its range, given the units decided meanwhile.
    shallow : int
        Up to this depth, ascents take twice the steps, and of `near` only the second round: other
        units' phases matter less there (otherwise Chen's networks take 1.1 times the nodes).
    ascent_work : int
        Most multiplications that the ascent of a batch may take.
    programs : int
        Linear programs are solved for all nodes without a known point as long as one in this many
        proves a node empty; otherwise for one node in this many, for its point (3 to 10 perform
        alike).
    box_inputs, box_units : int
        Largest number of inputs for which input boxes are split, and largest number of unstable
        units for which units are split even then, since splitting few units is cheap.
    least_width : float
        Boxes narrower than this share of the domain are split only if both halves decide units:
        where kinks meet in a point or a line, one half always has them open.
    few : int
        Branching candidates that a node keeps; points sent with a node to another process; points
        with a unit at zero that are examined exactly, per call (4 to 16 perform alike).
    tried : int
        For the first split, one in this many of the unstable units is tried.  This takes a few more
        bounds, but avoids bad first splits, after which trees of trained networks have twice as
        many nodes.
    close : float
        Roots with bounds below this many times the cutoff are split without trying: small trees of
        images take 0.5 to 1.0 of the time (a factor of two is not better for Chen's networks).
    unit_trust : float
        Number of splits on a unit at which its own record, beyond what the features predict, gets
        half of the full weight.
    pool_bytes : int
        Memory for points; once it is full, new points are only tried as incumbents.
    """

    slack: float = 2e-7
    together: int = TOGETHER
    common: int = 40_000
    long_root: float = 0.1
    switched: float = 0.5
    many: int = 128
    large_part: float = 8.0
    most_large: float = 48.0
    large_node: float = 10.0
    ascent_steps: int = 12
    ascent_cold: int = 6
    near: tuple[float, ...] = (0.6, 0.3, 0.15)
    shallow: int = 2
    ascent_work: int = 5_000_000_000
    programs: int = 8
    box_inputs: int = 3
    box_units: int = 6
    least_width: float = 2.0**-8
    few: int = 16
    tried: int = 4
    close: float = 1.2
    unit_trust: float = 3.0
    pool_bytes: int = KEPT
