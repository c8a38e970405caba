"""The numbers that semidefinite bounds are tuned by."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Params:
    """What the numbers of a descent trade.

    Attributes
    ----------
    first_mu : float
        First weight of the barrier, as a share of the objective: less, and steps are cut short.
    little : float
        Relative fall of the barrier function in a quasi-Newton step after which Newton's method
        goes on: more, and its dearer steps begin earlier.
    quick_tries, tries : int
        Most lengths of a quasi-Newton step, and of one of Newton's, that are tried.
    central : float
        Squared decrement (over mu) of points that count as central.  With three times as much there
        are a third fewer steps, which drift off the path and end up to 0.5 % above the optimum.
    to_boundary, predicted : float
        Shares of the way to the boundary that a step may take, and one to a smaller mu.
    most_fall : float
        Share by which mu falls at most.
    most_steps : int
        Newton steps of a descent: only numbers that do not converge take so many.
    root_accuracy : float
        A descent goes on to this accuracy though its target is out of reach: a tree inherits its
        multipliers.
    out_of_reach : float
        Times mu and the order that a target has to be below a bound to be out of reach.
    warm_central : float
        Squared decrement (over mu and the order) up to which mu falls after a warm start: few steps
        are wanted then, and the parent was central.
    fall : float
        Factor by which mu falls there.
    stretch : float
        Inherited zeta are multiplied by this before the first step, away from the boundary: without
        it trees on trained networks have a third more nodes.
    """

    first_mu: float = 0.1
    little: float = 0.01
    quick_tries: int = 8
    tries: int = 25
    central: float = 1.0
    to_boundary: float = 0.95
    predicted: float = 0.85
    most_fall: float = 0.98
    most_steps: int = 400
    root_accuracy: float = 0.01
    out_of_reach: float = 1.1
    warm_central: float = 0.3
    fall: float = 0.2
    stretch: float = 1.05
