"""Bounds and witnesses of the reduced problem, shared by several methods."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock, dense_entries, fits, model_seconds, model_terms, seconds_of
from lipyomo.base.errors import MethodError
from lipyomo.base.system.memory import LARGE
from lipyomo.networks.network import check_two_slopes
from lipyomo.networks.phases import Phases, count_open
from lipyomo.primal.regions import make_witness
from lipyomo.primal.regions.witness import unbeaten
from lipyomo.problems.norms import ONE_BY_ONE
from lipyomo.problems.operator_norm import norm_seconds, product_of_norms
from lipyomo.problems.problem import LOOKS, LipschitzProblem
from lipyomo.problems.reductions.presolve import presolved_sizes
from lipyomo.problems.result import Guarantee, Witness
from lipyomo.problems.run import Run
from lipyomo.relaxations.cascade import STAGES, Cascade, Stage
from lipyomo.relaxations.linear import LayerBounds, preactivation_bounds
from lipyomo.relaxations.linear.layers import with_slopes

MOST_TERMS = 1e7
"""Most terms of a Pyomo model; larger ones take several gigabytes."""


def best_witness(
    problem: LipschitzProblem, points: FloatArray, values: FloatArray
) -> Witness | None:
    """Return a verified witness at the best of some points (n, d), given their `values` (n,).

    Points on a kink or on a face of the domain prove nothing; then the next best is tried.
    """
    order = np.argsort(-values, kind="stable")[:LOOKS]
    return unbeaten(points[order], values[order], partial(make_witness, problem))


def domain_bounds(run: Run) -> LayerBounds:
    """Bound the reduced problem's pre-activations by the relaxation of the settings (linear)."""
    small, relaxation = run.problem.reduced.problem, run.settings.bounds
    if relaxation == "lp":
        check_two_slopes(small.network, "bounds=lp", "bounds=linear", MethodError)
    found = preactivation_bounds(
        small.network,
        small.domain,
        relaxation="linear" if relaxation == "auto" else relaxation,
        time_limit=run.clock.left,
        stop=run.clock.steps(),
    )
    run.state(unstable=found.unstable, bounds=found.relaxation)
    return found


def switched(run: Run, bounds: LayerBounds) -> LipschitzProblem:
    """Return the reduced problem with two-slope units, for bounds over open switches.

    Smooth units are replaced by two-slope ones (`lipyomo.relaxations.linear.layers`).
    """
    small = run.problem.reduced.problem
    network = with_slopes(small.network, bounds)
    return small if network is small.network else small.with_network(network)


def affine_bound(run: Run) -> None:
    """Report to a run the affine bound of its gradient, if its network is smooth.

    Unlike bounds by ranges of slopes, it accounts for how slopes change together, and is tighter on
    small domains.
    """
    small = run.problem.reduced.problem
    tables = 8.0 * small.network.input_dim**2 <= LARGE
    if small.network.smooth and small.domain.is_bounded and tables and not run.expired:
        from lipyomo.search.spaces.boxes.wide.chords import whole_bound

        try:
            run.drop_upper(whole_bound(small, run.clock))
        except MethodError:  # too many vertices; other bounds treat the dual ball as a whole
            return


def product_bound(run: Run) -> None:
    """Report to a run the product of its layers' norms, if there is time.

    Relaxations lose a factor per layer, so they may be weaker than it on deep random networks, as
    may ranges of slopes on any smooth network.
    """
    small = run.problem.reduced.problem
    deep = small.network.smooth or len(small.network.hidden) > 1
    if deep and run.clock.fits(norm_seconds(small.tangent_network, small.norm)):
        run.drop_upper(product_of_norms(small.tangent_network, small.norm, small.output_norm))


def run_cascade(run: Run, stages: Sequence[Stage] = STAGES) -> Cascade:
    """Run the cascade of the reduced problem, and report every bound to the run.

    Interval bounds of the gradients come first, to have a bound soon, followed by the product of
    the layers' norms.
    """
    bounds = domain_bounds(run)
    small = switched(run, bounds)
    cascade = Cascade(small, bounds, clock=run.clock, report=run.drop_upper)
    cascade.run(("entries",))
    run.drop_upper(cascade.value)
    product_bound(run)
    cascade.run(stages)
    run.drop_upper(cascade.value)
    return cascade


def vertex_bounds(run: Run, bounds: LayerBounds) -> FloatArray:
    """Bound (FastLip) the vertices of the reduced problem's dual ball from above, shape (k,)."""
    cascade = Cascade(run.problem.reduced.problem, bounds, clock=run.clock)
    cascade.run(("entries",))
    found = np.zeros(len(cascade.targets.functionals))
    np.maximum.at(found, cascade.targets.rows, cascade.upper)
    return found


def fall_back(run: Run, bounds: LayerBounds | None = None) -> None:
    """Report a cheap bound to a run that must end early.

    Parameters
    ----------
    run : Run
    bounds : LayerBounds, optional
        Its pre-activation bounds; by default those of interval arithmetic.
    """
    small = run.problem.reduced.problem
    if bounds is None:
        bounds = preactivation_bounds(small.network, small.domain, relaxation="interval")
    cascade = Cascade(switched(run, bounds), bounds, clock=run.clock)
    cascade.run(("entries",))
    run.drop_upper(cascade.value)


def model_fits(run: Run) -> bool:
    """Return whether a Pyomo model fits into memory and time; if not, run the cascade instead."""
    weights = [layer.weight for layer in run.problem.reduced.problem.network.layers]
    terms = model_terms(weights)
    if terms <= MOST_TERMS and run.clock.fits(model_seconds(weights)):
        return True
    run.warn(
        f"a model of about {terms:.2g} terms is too large for the memory, or for the time that is "
        "left: the bound is that of cheaper methods.  Remedy: use method bnb"
    )
    if run.guarantee is Guarantee.EXACT:  # other methods have a witness already
        from lipyomo.primal.heuristics.local_search import quick_incumbent

        run.raise_lower(quick_incumbent(run.problem, run.settings.seed, run.clock))
    run_cascade(run)
    return False


def few_vertices(problem: LipschitzProblem, method: str) -> FloatArray:
    """Return the vertices of the dual ball (k, m), for one scalar problem each.

    Raises
    ------
    MethodError
        If there are too many.
    """
    vertices = problem.dual_vertices
    if vertices is None or len(vertices) > ONE_BY_ONE:
        raise MethodError(
            f"method {method} treats the vertices of the dual ball one by one, and the norm "
            f"{problem.output_norm.name} of {problem.network.output_dim} outputs has more than "
            f"{ONE_BY_ONE}.  Remedy: give a functional or a margin"
        )
    return vertices


def _sizes(problem: LipschitzProblem, phases: Phases) -> tuple[int, list[int] | None]:
    """Return the number of functionals, and the presolved layers' sizes if much smaller."""
    vertices = problem.dual_vertices
    count = problem.network.output_dim if vertices is None else len(vertices)
    return count, presolved_sizes(problem.network, count, phases)


def form_bytes(problem: LipschitzProblem, phases: Phases) -> float:
    """Predict the memory of the dense maps of a reduced problem's units, given phases."""
    sizes = _sizes(problem, phases)[1] or problem.network.sizes
    return 8.0 * sum(sizes[1:]) * (problem.network.input_dim + count_open(phases))


def search_bytes(problem: LipschitzProblem, phases: Phases) -> float:
    """Predict the memory of a search: dense weights, and three times the maps of all units."""
    sizes = _sizes(problem, phases)[1] or problem.network.sizes
    weights = sum(float(a) * b for a, b in pairwise(sizes))
    return 8.0 * weights + 3.0 * form_bytes(problem, phases)


def form_seconds(problem: LipschitzProblem, phases: Phases) -> float:
    """Predict the time of computing the maps of all units, on one quiet core."""
    weights = [layer.weight for layer in problem.network.layers]
    columns = problem.network.input_dim + count_open(phases)
    functionals, sizes = _sizes(problem, phases)
    if sizes is None:
        return seconds_of(4.0 * sum(dense_entries(w) for w in weights) * columns)
    behind = [functionals + count_open(phases[i:]) for i in range(len(weights))]
    pulled_back = sum(float(w.size) * rows for w, rows in zip(weights, behind, strict=True))
    left = sum(float(a) * b for a, b in pairwise(sizes[1:]))  # the first layer's are its weights
    return seconds_of(4.0 * pulled_back + 10.0 * left * columns)


def form_fits(run: Run, phases: Phases) -> bool:
    """Return whether dense maps of all units fit into memory and time; if not, warn the run."""
    small = run.problem.reduced.problem
    size, seconds = form_bytes(small, phases), form_seconds(small, phases)
    if size <= LARGE and run.clock.fits(seconds):
        return True
    run.warn(
        f"{sum(small.network.sizes[1:-1])} units of which {count_open(phases)} are open are too "
        "many for the memory, or for the time that is left: the bound is that of cheaper methods"
    )
    return False


def joint_first(cascade: Cascade, clock: Clock) -> None:
    """Run the joint stage if it costs less than the semidefinite bounds in closed form.

    If there is time for only one of them, the semidefinite bounds are preferred: with many unstable
    units they are several times tighter.
    """
    from lipyomo.relaxations.semidefinite.choice import root_cost

    problem, bounds = cascade.problem, cascade.bounds
    layers = [count_open((phases,)) for phases in bounds.phases]
    cost = root_cost(cascade.targets, problem.tangent_network.input_dim, bounds.unstable, layers)
    joint, forms = cascade.predicted("joint"), form_seconds(problem, bounds.phases) + cost.closed
    proved = forms + cost.proof
    alone = fits(proved, clock.left) and not fits(joint + proved, clock.left)
    if joint <= forms and not alone:
        cascade.run(("joint",))
