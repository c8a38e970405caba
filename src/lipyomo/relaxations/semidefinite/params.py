"""The numbers that semidefinite bounds are tuned by, in one place."""

from __future__ import annotations

from dataclasses import dataclass

from lipyomo.base.numerics.params import PARAMS as NUMERICS


@dataclass(frozen=True)
class Params:
    """What each number trades, and within which range it does not matter.

    Attributes
    ----------
    first_mu : float
        First weight of the barrier, as a share of the objective, and twice that of a warm start:
        less, and steps are cut short; more, and nodes that stay open end with looser bounds.
    coarse : float
        What is little where little is wanted, relative: a quasi-Newton step that gains no more is
        the last, one that has to be shortened by so much is given up; a descent goes on to this
        accuracy though its target is out of reach, since a tree inherits its multipliers; points
        count as central where the squared decrement (over mu) is less than this share of the order,
        or than one; conjugate gradients end there; moments that correct the inputs' proportions lie
        between it and its inverse.
    to_boundary : float
        Share of the way to the boundary that a step may take; mu falls by so much at central
        points, and by no more at a time.
    most_steps : int
        Newton steps of a descent: only numbers that do not converge take so many.
    warm_central : float
        Squared decrement (over mu and the order) of points that count as central after a warm
        start: fewer steps a node against worse look-aheads.  As strict as elsewhere, nodes with 40
        units take 1.4 times the steps for the same bounds; with 0.3 trained networks have a tenth
        more nodes.
    warm_fall : float
        Factor by which mu falls at these.
    out_of_reach : float
        Times mu and the order that a target has to be below a bound after a warm start to be out of
        reach.
    stretch : float
        Inherited zeta are multiplied by this before the first step, away from the boundary: without
        it trees on trained networks have a third more nodes.
    proportional : float
        Times that a step must be cheaper with the inputs' multipliers in proportion: their bounds
        are looser (with four times, networks of 80 inputs before 80 units have 1.2 times the nodes;
        with eight, some of 120 inputs take 1.2 times the time).
    power : float
        Of the smooth maximum of several functionals' bounds (8 to 32 end within 1 %).
    krylov : int
        Steps of Lanczos' method that estimate how far the boundary is, those that a quasi-Newton
        method keeps, and most conjugate gradients that a Newton step of a wide kernel takes; half
        as many usually.
    shares : int
        Multipliers of a block that a closed form tries: the middles of so many equal parts of those
        that keep C definite (eleven are 0 to 1.8 % tighter).
    paired : int
        Unstable units from which on products of pairs pay: with 64 networks of Chen et al. take
        half as many nodes again with them, and twice the time.  As many pairs may be chosen in any
        case, twice as many as there are unstable units otherwise.
    usual_steps : int
        Newton steps of a descent from a closed form.  So many have to be left where products of
        pairs are looked for, and so many first steps where points are looked for before them.
    single : int
        Order of C from which on a wide kernel's Newton steps are computed in single precision.
    newton : float
        Times that a Newton step takes as long as one of a quasi-Newton method.
    long_step : float
        Seconds of a step from which on threads of the linear algebra pay.
    threads : int
        Most of them: four take as long as one (784-1024-1024-10), and longer where a core is busy.
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
    power: float = 16.0
    krylov: int = 20
    shares: int = 5
    paired: int = 128
    usual_steps: int = 20
    single: int = 512
    newton: float = 5.0
    long_step: float = 0.02
    threads: int = 2


PARAMS = Params()
