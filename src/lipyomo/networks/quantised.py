"""Quantised networks, which round intermediate signals to multiples of a step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lipyomo.base.arrays import BoolArray, FloatArray
from lipyomo.base.errors import NetworkError
from lipyomo.networks.combined import affine_after, difference, side_by_side
from lipyomo.networks.network import Network


@dataclass(frozen=True, eq=False)
class QuantisedNetwork:
    """A step function ``f : R^d -> R^m`` that rounds k signals, each to ``s round(v / s)``.

    Rounded signals are also clipped to ``[s low, s high]``, with whole numbers low and high.

    Attributes
    ----------
    network : Network
        Network of the inputs (x, e): for every x there are errors e in [-1/2, 1/2]^k, in steps, for
        which its value is f(x).
    held : Network
        Network of the inputs (x, r) with the outputs (y, v), where the rounded signals are replaced
        by r.  f(x) = y if r is the rounding of v.
    step, low, high : ndarray, shape (k,)
    """

    network: Network
    held: Network
    step: FloatArray
    low: FloatArray
    high: FloatArray

    @property
    def rounded(self) -> int:
        """Number k of signals that are rounded."""
        return int(self.step.size)

    @property
    def input_dim(self) -> int:
        """Number d of inputs x."""
        return self.network.input_dim - self.rounded

    @property
    def output_dim(self) -> int:
        """Number m of outputs."""
        return self.network.output_dim

    def nearest(self, signals: FloatArray) -> FloatArray:
        """Round signals (n, k) in float64."""
        whole = np.clip(np.rint(signals / self.step), self.low, self.high)
        return np.asarray(whole * self.step)

    def forward(self, points: npt.ArrayLike) -> FloatArray:
        """Evaluate f at points (n, d) in float64; near a step the result may be on either side."""
        x = np.atleast_2d(np.asarray(points, dtype=np.float64))
        return self.held.forward(np.hstack([x, self.settled(x)]))[:, : self.output_dim]

    def settled(self, points: FloatArray) -> FloatArray:
        """Return the rounded signals (n, k) at points (n, d), in float64.

        Raises
        ------
        NetworkError
            If they do not converge, which is impossible for feed-forward networks.
        """
        r = np.zeros((len(points), self.rounded))
        for _ in range(self.rounded + 2):  # each iteration fixes a further layer
            found = self.nearest(self.held.forward(np.hstack([points, r]))[:, self.output_dim :])
            if np.array_equal(found, r):
                return r
            r = found
        raise NetworkError("the rounded signals do not settle: the network reads its own outputs")


def of_network(network: Network) -> QuantisedNetwork:
    """Return a network without rounding as a `QuantisedNetwork`."""
    none = np.zeros(0)
    return QuantisedNetwork(network, network, none, none, none)


def quantised_difference(f: QuantisedNetwork, g: QuantisedNetwork) -> QuantisedNetwork:
    """Return the quantised network ``f - g``, which rounds the signals of both.

    Raises
    ------
    NetworkError
        If their inputs or outputs differ in number.
    """
    for own, other, what in (
        (f.input_dim, g.input_dim, "inputs"),
        (f.output_dim, g.output_dim, "outputs"),
    ):
        if own != other:
            raise NetworkError(
                f"{f.network.name} has {own} {what}, {g.network.name} has {other}.  Remedy: give "
                "two versions of one network"
            )
    d, m, total = f.input_dim, f.output_dim, f.rounded + g.rounded
    x = np.arange(d)
    inputs = sp.eye_array(d + total, format="csr")
    chosen = [
        inputs[np.concatenate([x, d + start + np.arange(one.rounded)])]
        for one, start in ((f, 0), (g, f.rounded))
    ]
    errors = [one.network.with_directions(T) for one, T in zip((f, g), chosen, strict=True)]
    held = [one.held.with_directions(T) for one, T in zip((f, g), chosen, strict=True)]
    eye = sp.eye_array(2 * m + total, format="csr")
    first, second = np.arange(m), m + f.rounded + np.arange(m)
    signals = np.setdiff1d(np.arange(2 * m + total), np.concatenate([first, second]))
    rows = sp.vstack([eye[first] - eye[second], eye[signals]], format="csr")
    name = f"{f.network.name} - {g.network.name}"
    return QuantisedNetwork(
        difference(errors[0], errors[1], name),
        affine_after(side_by_side(held), rows, name=name),
        *(
            np.concatenate([getattr(one, part) for one in (f, g)])
            for part in ("step", "low", "high")
        ),
    )


def is_rounded(q: QuantisedNetwork, signals: FloatArray, to: FloatArray) -> BoolArray:
    """Return whether signals (..., k) round to `to`, up to errors of float32."""
    inside = np.clip(signals, q.low * q.step, q.high * q.step)
    off = np.abs(inside - to)
    return np.asarray(off <= 0.5 * q.step + 2.0**-20 * (q.step + np.abs(inside)))
