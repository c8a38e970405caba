"""The numbers that semidefinite bounds are tuned by, in one place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Params:
    """What each number trades, and within which range it does not matter.

    Attributes
    ----------
    first_mu : float
        First weight of the barrier, as a share of the objective, and twice that of a warm start:
        less, and steps are cut short; more, and nodes that stay open end with looser bounds.
    coarse : float
        Relative accuracy where little is wanted: a quasi-Newton step that gains no more is the
        last; a descent goes on to it though its target is out of reach, since a tree inherits its
        multipliers; conjugate gradients end there.  Corrections of the inputs' proportions are
        moments between it and its inverse.
    tries : int
        Most lengths of a step that are tried, each half of the one before.
    central : float
        Squared decrement (over mu) of points that count as central.  With three times as much there
        are a third fewer steps, which drift off the path and end up to 0.5 % above the optimum.
    to_boundary, predicted : float
        Shares of the way to the boundary that a step may take (mu falls by no more at a time), and
        one to a smaller mu.
    most_steps : int
        Newton steps of a descent: only numbers that do not converge take so many.
    out_of_reach : float
        Times mu and the order that a target has to be below a bound to be out of reach.
    damped : float
        First length of a step after a warm start, over the root of its squared decrement (over mu).
        The boundary is about so far away, and longer steps end beyond it (2 to 3 alike).
    warm_central : float
        Squared decrement (over mu and the order) of points that count as central after a warm
        start: few steps are wanted then, and the parent was central.
    fall : float
        Factor by which mu falls at these.
    stretch : float
        Inherited zeta are multiplied by this before the first step, away from the boundary: without
        it trees on trained networks have a third more nodes.
    remembered : int
        Steps that a quasi-Newton method keeps.
    most_change : float
        Largest change of a multiplier's logarithm in a quasi-Newton step; half of it in the first.
    power : float
        Of the smooth maximum of several functionals' bounds (8 to 32 end within 1 %).
    off_boundary : float
        Times that the multipliers of a ball of functionals begin above what is needed: on the
        boundary there is no Newton step.
    krylov : int
        Steps of Lanczos' method that estimate how far the boundary is, and most conjugate gradients
        that a Newton step of a wide kernel takes; half as many usually.
    proportional_pays : float
        Times that a step must be cheaper with the inputs' multipliers in proportion.
    joined : float
        Largest share of the inputs that is left where those of fixed signs are joined.
    usual_steps : int
        Newton steps of a descent from a closed form, and first steps that have to be left where
        points are looked for before them.
    newton : float
        Times that a Newton step takes as long as one of a quasi-Newton method.
    joint_below : float
        The joint stage is above closed forms that are less than so many times the quick stages: on
        trained networks it is at 0.3 to 0.8 times these, mostly where closed forms are at 0.5 or
        more.
    order : int
        Of matrices, beyond which a semidefinite bound is left out: 4 GB at six of them at a time.
    long_step : float
        Seconds of a step from which on threads of the linear algebra pay.
    threads : int
        Most of them: four take as long as one (784-1024-1024-10), and longer where a core is busy.
    grace : float
        Seconds by which the proof of what was found may exceed the time.
    """

    first_mu: float = 0.1
    coarse: float = 0.01
    tries: int = 16
    central: float = 1.0
    to_boundary: float = 0.95
    predicted: float = 0.85
    most_steps: int = 400
    out_of_reach: float = 1.1
    damped: float = 2.5
    warm_central: float = 0.3
    fall: float = 0.2
    stretch: float = 1.05
    remembered: int = 10
    most_change: float = 2.0
    power: float = 16.0
    off_boundary: float = 1.5
    krylov: int = 20
    proportional_pays: float = 4.0
    joined: float = 0.5
    usual_steps: int = 20
    newton: float = 5.0
    joint_below: float = 0.3
    order: int = 9_500
    long_step: float = 0.02
    threads: int = 2
    grace: float = 0.3


PARAMS = Params()
