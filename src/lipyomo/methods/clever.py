"""CLEVER: extreme-value statistics of sampled gradient norms; a heuristic, no bound."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.methods.options import count_option
from lipyomo.methods.registry import TAKES_ALL, method
from lipyomo.methods.support import best_witness
from lipyomo.primal.heuristics.evaluate import evaluation_work, sampled_norms
from lipyomo.primal.heuristics.params import PARAMS as SAMPLING
from lipyomo.problems.result import Guarantee, Result
from lipyomo.problems.run import Run


class WeibullFit(NamedTuple):
    """A reverse Weibull distribution ``P(X <= x) = exp(-((end - x) / scale) ** shape)``.

    Attributes
    ----------
    end : float
        Right end point, the estimate of the Lipschitz constant.
    shape, scale : float
    statistic, p_value : float
        Kolmogorov-Smirnov test of the fit.  The p-value is too optimistic, as the parameters are
        fitted to the same sample.
    verdict : str
        ``good``, or why the fit cannot be used: ``degenerate`` (no spread), ``diverged`` (the
        likelihood prefers an end point at infinity), ``collapsed`` (the likelihood is unbounded
        at the sample maximum), ``poor`` (p-value below 0.001).
    """

    end: float
    shape: float
    scale: float
    statistic: float
    p_value: float
    verdict: str

    @property
    def usable(self) -> bool:
        """Whether the end point is a meaningful estimate."""
        return self.verdict == "good"


def _shape_of(gaps: FloatArray) -> float:
    """Maximum-likelihood shape of a Weibull sample, by bisection on its score."""
    logs = np.log(gaps)
    logs -= logs.max()

    def score(shape: float) -> float:
        weights = np.exp(shape * logs)
        return float(weights @ logs / weights.sum() - 1.0 / shape - logs.mean())

    low, high = 1e-3, 1e6
    for _ in range(80):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if score(middle) < 0 else (low, middle)
    return math.sqrt(low * high)


def _scale_of(gaps: FloatArray, shape: float) -> float:
    """Maximum-likelihood scale for a given shape."""
    top = float(gaps.max())
    return float(top * np.mean((gaps / top) ** shape) ** (1.0 / shape))


def _log_likelihood(gaps: FloatArray) -> float:
    """Profile log-likelihood of an end point, given its distances to the sample."""
    shape = _shape_of(gaps)
    scale = _scale_of(gaps, shape)
    ratio = gaps / scale
    terms = math.log(shape / scale) + (shape - 1.0) * np.log(ratio) - ratio**shape
    return float(terms.sum())


def _distance(shares: FloatArray) -> float:
    """Kolmogorov's distance of a sample from a distribution, given the latter's values on it."""
    steps = np.arange(shares.size + 1) / shares.size
    shares = np.sort(shares)
    return float(max((steps[1:] - shares).max(), (shares - steps[:-1]).max()))


def fit_reverse_weibull(maxima: FloatArray) -> WeibullFit:
    """Fit the reverse Weibull distribution to batch maxima by maximum likelihood.

    The profile likelihood is maximised over the end point, which determines shape and scale.  A fit
    whose end point is ten sample ranges above the largest member is rejected as diverged.

    Parameters
    ----------
    maxima : ndarray, shape (n,)

    Returns
    -------
    WeibullFit
    """
    top, spread = float(maxima.max()), float(np.ptp(maxima))
    if maxima.size < 3 or spread <= 1e-12 * max(abs(top), 1e-300):
        return WeibullFit(top, math.nan, 0.0, 0.0, 1.0, "degenerate")
    from scipy import optimize, special

    sample = (maxima - top) / spread
    low, high = math.log(1e-8), math.log(10.0)

    def loss(log_step: float) -> float:
        return -_log_likelihood(math.exp(log_step) - sample)

    grid = np.linspace(low, high, 60)
    values = [loss(step) for step in grid]
    k = int(np.argmin(values))
    bracket = (grid[max(k - 1, 0)], grid[min(k + 1, 59)])
    step = math.exp(optimize.minimize_scalar(loss, bounds=bracket, method="bounded").x)
    gaps = step - sample
    shape = _shape_of(gaps)
    scale = _scale_of(gaps, shape)
    statistic = _distance(np.exp(-((gaps / scale) ** shape)))
    p_value = float(special.kolmogorov(math.sqrt(sample.size) * statistic))
    verdict = "good"
    if k == 0 or shape < 1.0:
        verdict = "collapsed"
    elif k == len(grid) - 1:
        verdict = "diverged"
    elif p_value < 1e-3:
        verdict = "poor"
    return WeibullFit(top + spread * step, shape, spread * scale, statistic, p_value, verdict)


@method(
    "clever",
    "CLEVER",
    Guarantee.HEURISTIC,
    "Weng et al., Evaluating the robustness of neural networks (ICLR 2018)",
    options={"batches": 500, "batch_size": 1024},
    **TAKES_ALL,
)
def run(run: Run) -> Result:
    """Estimate the constant from the maxima of batches of sampled gradient norms.

    Options
    -------
    batches, batch_size : int
        500 and 1024 by default, as in the LipMIP paper.
    """
    batches = count_option(run, "batches", least=3)
    size = count_option(run, "batch_size")
    rng = np.random.default_rng(run.settings.seed)
    small = run.problem.reduced.problem
    maxima: list[float] = []
    points: list[FloatArray] = []
    rows = int(np.clip(SAMPLING.poll_work / evaluation_work(small), 1, size))
    late = run.clock.steps()
    while len(maxima) < batches and not (maxima and late()):
        batch = small.domain.sample(rng, size)
        parts: list[FloatArray] = []
        for first in range(0, size, rows):
            if parts and late():
                break
            parts.append(sampled_norms(small, batch[first : first + rows]))
        found = np.concatenate(parts)
        k = int(np.argmax(found))
        maxima.append(float(found[k]))
        points.append(run.problem.reduced.lift_point(batch[k]))
    seen = np.array(maxima)
    fit = fit_reverse_weibull(seen)
    run.raise_lower(best_witness(run.problem, np.array(points), seen))
    run.record(
        batches=len(maxima),
        batch_size=size,
        fit=fit.verdict,
        end_point=fit.end,
        shape=fit.shape,
        scale=fit.scale,
        ks_statistic=fit.statistic,
        ks_p_value=fit.p_value,
        sample_maximum=float(seen.max()),
    )
    if not fit.usable and fit.verdict != "degenerate":
        run.warn(
            f"the reverse-Weibull fit cannot be used ({fit.verdict}): the estimate is the sample "
            "maximum"
        )
    return run.result(len(maxima) == batches, estimate=fit.end if fit.usable else float(seen.max()))
