"""Steps of dual ascent in single precision: AdaGrad with momentum on columns of multipliers.

The bound and its derivatives are those of `lipyomo.bounds.dual_ascent`.  Nothing here has to be
exact: what the steps end at are multipliers, and any multipliers prove a bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lipyomo.bounds.dual_rows import Gathered
from lipyomo.bounds.params import PARAMS
from lipyomo.domains import NormBall

SingleArray = npt.NDArray[np.float32]

_TINY = np.finfo(np.float32).tiny

_SIGN_BIT = np.int32(-(2**31))


@dataclass(frozen=True, eq=False)
class DualSteps:
    """The network and the domain in single precision.

    Attributes
    ----------
    maps : list of ndarray or sparse array, shapes (n_i, n_before + 1)
        Weights, and behind them the biases.
    spans : list of slice
        The units of each layer.
    facets, limits : ndarray, shapes (r, d) and (r,)
        Rows of the domain.
    ball : NormBall, optional
        Of the domain.
    """

    maps: Sequence[Any]
    spans: Sequence[slice]
    facets: SingleArray
    limits: SingleArray
    ball: NormBall | None

    def ascended(
        self,
        data: Gathered,
        current: SingleArray,
        limits: tuple[SingleArray, SingleArray, SingleArray],
        steps: int,
    ) -> SingleArray:
        """The best multipliers of each column in so many steps (AdaGrad; Duchi et al., 2011)."""
        least, most, scale = limits
        best, kept = np.full(current.shape[1], np.inf, dtype=np.float32), current.copy()
        total, squares = np.zeros_like(current), np.full_like(current, _TINY)
        size = np.empty_like(current)
        for turn in range(steps + 1):
            values, slopes = self._sweep(data, current, turn < steps)
            if turn == 0 or 2 * turn >= steps:  # the best ones come late
                better = values < best  # never numbers beyond single precision
                best = np.minimum(best, values)
                if np.isfinite(values).all():  # arithmetic takes a fraction of masked copies
                    np.subtract(current, kept, out=size)
                    size *= better.astype(np.float32)
                    kept += size
                else:
                    np.copyto(kept, current, where=better)
            if turn == steps:
                break
            np.square(slopes, out=size)
            squares += size
            np.sqrt(squares, out=size)
            total *= np.float32(PARAMS.momentum)
            total += slopes
            np.divide(total, size, out=size)
            size *= scale
            current -= size
            np.maximum(current, least, out=current)
            np.minimum(current, most, out=current)
        return kept

    def _sweep(
        self, data: Gathered, multipliers: SingleArray, slopes: bool
    ) -> tuple[SingleArray, SingleArray]:
        """Bounds (R,) and their derivatives (columns, R) in single precision."""
        result = np.empty_like(multipliers)
        lines: list[SingleArray | None] = []  # the coefficients that meet a line through zero
        bounds = multipliers.shape[1]
        constant = np.zeros(bounds, dtype=np.float32)
        coefficients: SingleArray | None = None
        for i in range(len(self.spans) - 1, -1, -1):
            span, line, seed = self.spans[i], None, data.seeds[i]
            factor = data.sign[span]
            if coefficients is not None:
                line = coefficients
                coefficients = data.beyond(coefficients, span)
                line -= coefficients
                factor = np.add(factor, line, out=result[span])
            else:
                result[span] = factor
            total = multipliers[span] * factor
            if coefficients is not None:
                constant += np.einsum("nr,nr->r", coefficients, data.offset[span])
                coefficients *= data.chord[span]
                total += coefficients
            if seed is not None:
                total += seed
            lines.append(line)
            below = self.maps[i].T @ total
            coefficients, shift = below[:-1], below[-1]
            constant += shift
        assert coefficients is not None
        if self.limits.size:
            gamma = multipliers[self.spans[-1].stop :]
            constant += self.limits @ gamma
            coefficients -= self.facets.T @ gamma
        support, point = self._support(coefficients, data)
        values = constant + support
        if not slopes:
            return values, result
        if self.limits.size:
            faces = self.facets @ point
            result[self.spans[-1].stop :] = self.limits[:, None] - faces
        signal = _with_ones(len(point), bounds)
        signal[:-1] = point
        for i, line in enumerate(reversed(lines)):
            span = self.spans[i]
            z = self.maps[i] @ signal
            result[span] *= z
            if line is not None:
                signal = _with_ones(len(z), bounds)
                passed = signal[:-1]
                np.multiply(data.chord[span], z, out=passed)
                passed += data.offset[span]
                z *= multipliers[span]
                z -= passed
                z *= (line != 0).astype(np.float32)  # masks of bits cost as much, booleans twice
                passed += z
        return values, result

    def _support(
        self, coefficients: SingleArray, data: Gathered
    ) -> tuple[SingleArray, SingleArray]:
        """Largest values (R,) of linear functions (d, R) on the nodes, and where (d, R)."""
        point = data.middle + _with_signs(data.radius, coefficients)
        values = np.einsum("nr,nr->r", coefficients, point)
        ball = self.ball
        if ball is not None:
            at = ball.point.astype(np.float32)
            if ball.norm == "l2":
                size = np.sqrt(np.square(coefficients).sum(axis=0))
                out = coefficients / np.maximum(size, 1e-30)
            else:
                largest = np.abs(coefficients).argmax(axis=0)
                index = np.arange(len(largest))
                out = np.zeros_like(coefficients)
                out[largest, index] = np.sign(coefficients[largest, index])
                size = np.abs(coefficients[largest, index])
            in_ball = at @ coefficients + np.float32(ball.radius) * size
            inner = in_ball < values
            values = np.where(inner, in_ball, values)
            point = np.where(inner, at[:, None] + np.float32(ball.radius) * out, point)
        return values, point


def _with_signs(sizes: SingleArray, signed: SingleArray) -> SingleArray:
    """``copysign(sizes, signed)`` of sizes that are not negative, in a tenth of its time."""
    bits = signed.view(np.int32) & _SIGN_BIT
    bits |= sizes.view(np.int32)
    return bits.view(np.float32)


def _with_ones(rows: int, columns: int) -> SingleArray:
    """Room for a signal, on top of the ones that meet the biases."""
    signal = np.empty((rows + 1, columns), dtype=np.float32)
    signal[-1] = 1.0
    return signal
