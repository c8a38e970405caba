"""Tuning parameters of the semidefinite bounds."""

from __future__ import annotations

from typing import NamedTuple

from lipyomo.base.numerics.params import PARAMS as NUMERICS


class Params(NamedTuple):
    """Parameters, their trade-offs and their measured effects.

    Attributes
    ----------
    first_mu : float
        First weight of the barrier, relative to the objective; warm starts use half of it.  With
        less, steps are damped; with more, nodes that stay open end with looser bounds.
    coarse : float
        Relative accuracy where little is needed.  A quasi-Newton step of a smaller gain is the last
        one, and one that must be shortened below its square is given up.  A descent continues to
        this accuracy even if its target is out of reach, since a tree inherits its multipliers.
        Points are central if the squared decrement (over mu) is less than this share of the order,
        or than one.  Moments that correct the proportions of zeta are clipped to it and its
        inverse.
    to_boundary : float
        Largest reduction of mu at a central point, and the share of a feasible step to it.
    most_steps : int
        Limit of Newton steps of a descent, reached only if they do not converge.
    warm_central : float
        Squared decrement (over mu and the order) up to which points are central after a warm
        start: fewer steps per node against worse look-aheads.  As strict as elsewhere, nodes with
        40 units take 1.4 times the steps for the same bounds; with 0.3 trained networks have a
        tenth more nodes.
    warm_fall : float
        Factor by which mu is reduced at these points.
    out_of_reach : float
        After a warm start a target is out of reach if it is below the bound by more than this
        number times mu and the order.
    stretch : float
        Factor of inherited zeta before the first step, which moves them off the boundary: without
        it trees on trained networks have a third more nodes.
    proportional : float
        Factor by which a step must be cheaper with fixed proportions of zeta, as their bounds are
        looser (with four, networks of 80 inputs before 80 units have 1.2 times the nodes; with
        eight, some of 120 inputs take 1.2 times the time).
    memory : int
        Size of the memory of quasi-Newton steps.
    shares : int
        Number of multipliers of a block tried in closed form: the midpoints of equal parts of the
        range that keeps C definite (eleven are 0 to 1.8 % tighter).
    usual_steps : int
        Usual number of Newton steps from a closed form.  Time must be left for this number of first
        steps before points are searched for.
    single : int
        Order of C from which on Newton steps of wide kernels are computed in single precision.
    newton : float
        Cost of a Newton step relative to a quasi-Newton step.
    long_step : float
        Seconds of a step from which on several threads of the linear algebra pay.
    threads : int
        Limit of threads: four take as long as one (784-1024-1024-10), and longer if a core is busy.
    """

    first_mu: float = 0.1
    coarse: float = 0.01
    to_boundary: float = 0.9
    most_steps: int = NUMERICS.iterations
    warm_central: float = 0.1
    warm_fall: float = 0.2
    out_of_reach: float = 1.1
    stretch: float = 1.05
    proportional: float = 6.0
    memory: int = 20
    shares: int = 5
    usual_steps: int = 20
    single: int = 512
    newton: float = 5.0
    long_step: float = 0.02
    threads: int = 2


PARAMS = Params()
