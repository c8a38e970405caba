"""The semidefinite bound of one target under partial phases, at the root and at other nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.problems.affine.system import FlatPhases, NodeForm, UnitSystem
from lipyomo.problems.targets import Targets
from lipyomo.relaxations.semidefinite.choice import Ball, kernel_for, wide_kernel
from lipyomo.relaxations.semidefinite.descent import minimise
from lipyomo.relaxations.semidefinite.kernel import Kernel, State
from lipyomo.relaxations.semidefinite.params import PARAMS
from lipyomo.relaxations.semidefinite.proportional import minimise_in_proportion
from lipyomo.relaxations.semidefinite.prove import Exclusion, Prover
from lipyomo.relaxations.semidefinite.signs import in_free_inputs, joined_multipliers


class Minimum(NamedTuple):
    """Result of minimising the bound of a target over the multipliers.

    Attributes
    ----------
    target : int
    kernel : Kernel
    state : State
    signs : ndarray, shape (d,), optional
        Signs by which inputs are joined; by default those of the whole problem.
    """

    target: int
    kernel: Kernel
    state: State
    signs: FloatArray | None = None

    def exclusions(self, drops: tuple[FloatArray, FloatArray], aim: float) -> list[Exclusion]:
        """Return phases of single units that the multipliers may rule out.

        Parameters
        ----------
        drops : (ndarray, ndarray), shapes (F,)
            Look-ahead of the kernel: relative decrease of the bound with each unit off, and on.
        aim : float
            Phases whose predicted bound is at most this are tried.
        """
        kernel, state = self.kernel, self.state
        if not kernel.rank_one:
            return []
        value, primal, d = state.value, state.primal, kernel.inputs
        slack = kernel.rows @ primal - primal[d:]
        candidates = []
        for on, drop, along in ((False, drops[0], primal[d:]), (True, drops[1], slack)):
            hits = np.flatnonzero((value * (1.0 - drop) <= aim) & (along != 0.0))
            removed = 0.5 * value * (1.0 - np.square(1.0 - drop[hits]))
            candidates += [
                Exclusion(int(k), on, float(2.0 * r / a))
                for k, r, a in zip(hits, removed, along[hits], strict=True)
            ]
        return candidates


class Bounder:
    """Bounds of targets under `phases` and all partial patterns that refine them.

    Parameters
    ----------
    system : UnitSystem
    targets : Targets
    phases : ndarray of int8, shape (N,), optional
        By default every kinked unit is unstable.
    ball : {'l2', 'l1'}, optional
        The ball of functionals, for a target that stands for all of them.
    join : bool, optional
        Whether to join the inputs whose partial derivatives have a fixed sign under `phases`.
    """

    def __init__(
        self,
        system: UnitSystem,
        targets: Targets,
        phases: FlatPhases | None = None,
        ball: Ball = "l2",
        join: bool = False,
    ) -> None:
        self.targets, self._ball = targets, ball
        self._seen = system.starts[1] if system.depth else system.tangents.input_dim
        self.prover = Prover(system, targets, phases, ball, join)

    @property
    def value_errors(self) -> FloatArray:
        """Rounding errors of the targets' values under full patterns, shape (T,)."""
        return np.asarray(self.targets.interval(self.prover.gradient_errors[None])[0])

    def signs(
        self, form: NodeForm, target: int, known: FloatArray | None = None
    ) -> FloatArray | None:
        """Return the signs (d,) by which a target's inputs are joined under a form, or None.

        They extend those `known`, by default the signs of the whole problem.  Where units outnumber
        the inputs, joining more of them saves less than finding them costs.
        """
        fixed = self.prover.signs
        if fixed is None:
            return None
        known = self.prover.joining(target, known)
        return known if form.inputs < form.units.size else fixed.within(form, target, known)

    def rejoined(
        self,
        target: int,
        units: IntArray,
        multipliers: FloatArray,
        known: FloatArray | None,
        signs: FloatArray | None,
    ) -> FloatArray:
        """Convert multipliers of inputs joined by `known` to inputs joined by `signs`."""
        if signs is None:
            return multipliers
        head = multipliers.size - units.size
        zeta = joined_multipliers(multipliers[:head], signs, self.prover.joining(target, known))
        return np.concatenate([zeta, multipliers[head:]])

    def kernel(self, form: NodeForm, target: int, signs: FloatArray | None = None) -> Kernel:
        """Return the kernel for a target."""
        row, column = int(self.targets.rows[target]), int(self.targets.columns[target])
        euclidean = self.targets.norm == "l2"
        rows, objectives, inputs = form.rows, form.objective, form.inputs
        if self.targets.by_column:
            keep = np.concatenate([[column], np.arange(inputs, rows.shape[1])])
            rows, objectives, inputs, euclidean = rows[:, keep], objectives[:, keep], 1, True
        signs = self.prover.joining(target, signs)
        if signs is not None:
            inputs = 1 + int(np.count_nonzero(signs == 0))
            rows, objectives = in_free_inputs(rows, signs), in_free_inputs(objectives, signs)
        if self.targets.whole_ball and objectives.any():
            return kernel_for(rows, objectives, inputs, euclidean, self._ball, self._seen)
        objectives = objectives[max(row, 0)][None]
        return kernel_for(rows, objectives, inputs, euclidean, seen=self._seen)

    def fitted(self, kernel: Kernel, target: int, zeta: FloatArray, lam: FloatArray) -> FloatArray:
        """Convert multipliers for all inputs to those of a target's kernel."""
        signs = self.prover.joining(target)
        zeta = zeta if signs is None else joined_multipliers(zeta, signs)
        zeta = shaped(zeta, kernel.inputs, kernel.euclidean)
        return np.concatenate([zeta, lam])

    def minimise(
        self,
        form: NodeForm,
        target: int,
        warm: tuple[IntArray, FloatArray] | None = None,
        aim: float | None = None,
        stop: Callable[[], bool] | None = None,
        steps: int = PARAMS.most_steps,
        signs: FloatArray | None = None,
    ) -> Minimum | None:
        """Minimise the bound of a target over the multipliers.

        Parameters
        ----------
        form : NodeForm
            With at least one unstable unit.
        target : int
        warm : (ndarray of int, ndarray), optional
            Warm start: the unstable units of a parent form, and its multipliers.
        aim : float, optional
            Stop once the floating-point bound reaches this value; by default it is minimised.
        stop : callable, optional
            Polled before each step.
        steps : int, optional
            Limit of Newton steps from a warm start.
        signs : ndarray, shape (d,), optional
            Signs by which inputs are joined, by default those of the whole problem.

        Returns
        -------
        Minimum or None
            None if no definite matrix was found.
        """
        kernel = self.kernel(form, target, signs)
        start = None if warm is None else inherited(kernel, form, *warm)
        wide = None if start is None else wide_kernel(kernel, self._seen)
        if start is not None and wide is not None:
            found = minimise_in_proportion(wide, start, aim, steps, stop)
            if found is not None:
                return Minimum(target, *found, signs)
        state = minimise(kernel, start, aim, steps, stop=stop)
        return None if state is None else Minimum(target, kernel, state, signs)

    def excluded(
        self,
        form: NodeForm,
        found: Minimum,
        drops: tuple[FloatArray, FloatArray],
        aim: float,
    ) -> list[tuple[int, bool, float]]:
        """Bound single phases of open units by the multipliers of a minimum.

        Parameters
        ----------
        form : NodeForm
        found, drops, aim
            See `Minimum.exclusions`.

        Returns
        -------
        list of (position, on, bound)
            With unstable unit number `position` on or off, the target is at most `bound` (proved).
        """
        tries = found.exclusions(drops, aim)
        if not tries:
            return []
        y, signs = found.state.multipliers, found.signs
        proved = self.prover.exclude(form, found.target, y, tries, signs)
        return [(c.position, c.on, float(b)) for c, b in zip(tries, proved, strict=True)]


def shaped(zeta: FloatArray, inputs: int, euclidean: bool) -> FloatArray:
    """Return the inputs' multipliers; for a Euclidean ball, `inputs` equal ones."""
    return np.full(inputs, zeta[0]) if euclidean else zeta


def inherited(kernel: Kernel, form: NodeForm, units: IntArray, old: FloatArray) -> FloatArray:
    """Restrict the multipliers `old` of `units` to the units that are open in `form`."""
    head = old.size - units.size
    first = old[:head]
    if kernel.euclidean:  # one zeta, repeated for the inputs left after rotation
        outputs = kernel.outputs
        first = np.concatenate([old[:outputs], np.full(kernel.inputs, old[outputs])])
    elif kernel.rank_one:  # drop the gamma of a ball whose objective has become zero
        first = first[head - kernel.inputs :]
    positions = np.searchsorted(units, form.units)
    return np.concatenate([first, old[head + positions]])
