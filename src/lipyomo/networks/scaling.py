"""Offsets and factors between the units of a model and those of a trained network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lipyomo.base.arguments import real_numbers
from lipyomo.base.errors import ProblemError
from lipyomo.base.system.threads import with_one_blas_thread
from lipyomo.networks.network import Layer, Network


@dataclass(frozen=True)
class Scaling:
    """``network input = (x - input_offset) / input_factor``, and likewise for the outputs.

    The model's outputs are ``output_offset + output_factor * (network output)``.  The scaling is
    multiplied into the weights, so that values, gradients and Lipschitz constants are all in the
    model's units.

    Parameters
    ----------
    input_offset, input_factor : array_like, shape (d,), or float
    output_offset, output_factor : array_like, shape (m,), or float

    Raises
    ------
    ProblemError
        If a factor is zero or a number is not finite.

    Examples
    --------
    >>> from lipyomo import Network
    >>> network = Network.from_arrays([[[1.0]]])
    >>> Scaling(input_offset=10.0, input_factor=2.0).apply(network).forward([14.0])
    array([2.])
    """

    input_offset: npt.ArrayLike = 0.0
    input_factor: npt.ArrayLike = 1.0
    output_offset: npt.ArrayLike = 0.0
    output_factor: npt.ArrayLike = 1.0

    def __post_init__(self) -> None:
        for name in ("input_offset", "input_factor", "output_offset", "output_factor"):
            values = real_numbers(getattr(self, name), f"scaling: {name}", ProblemError)
            if not np.isfinite(values).all():
                raise ProblemError(f"scaling: {name} holds NaN or infinite entries")
            if name.endswith("factor") and (values == 0).any():
                raise ProblemError(f"scaling: {name} holds a zero")

    @with_one_blas_thread
    def apply(self, network: Network) -> Network:
        """Return the network as a function from the model's inputs to the model's outputs."""
        d, m = network.input_dim, network.output_dim
        shift = self._vector(self.input_offset, d, "input_offset")
        inverse = 1.0 / self._vector(self.input_factor, d, "input_factor")
        into = Layer(np.diag(inverse), -inverse * shift)
        factor = self._vector(self.output_factor, m, "output_factor")
        out = Layer(np.diag(factor), self._vector(self.output_offset, m, "output_offset"))
        shapes = network.input_shape, network.output_shape
        return Network([into, *network.layers, out], network.name, *shapes).fused(rounding=True)

    @staticmethod
    def _vector(values: npt.ArrayLike, size: int, name: str) -> npt.NDArray[np.float64]:
        vector = np.array(values, dtype=np.float64).reshape(-1)
        if vector.size not in (1, size):
            raise ProblemError(f"scaling: {name} has {vector.size} entries, expected {size}")
        return np.broadcast_to(vector, (size,))


_OMLT_NAMES = {
    "offset_inputs": "input_offset",
    "factor_inputs": "input_factor",
    "offset_outputs": "output_offset",
    "factor_outputs": "output_factor",
}
"""Arguments of OMLT's ``OffsetScaling``, and their names here."""


def in_units(network: Network, given: Any) -> Network:
    """Convert a network to a model's units, by a scaling that `scaling_of` accepts."""
    found = scaling_of(given)
    return network if found is None else found.apply(network)


def scaling_of(given: Any) -> Scaling | None:
    """Convert a `Scaling`, OMLT's ``OffsetScaling``, a dict, or None to a scaling.

    Parameters
    ----------
    given : Scaling, OffsetScaling or mapping
        A mapping has the arguments of either class as keys, and numbers, sequences, or dicts by
        position as values.

    Raises
    ------
    ProblemError
        If it is something else.
    """
    if given is None or isinstance(given, Scaling):
        return given
    if not isinstance(given, Mapping):
        given = _omlt_arguments(given)
    known = {**_OMLT_NAMES, **{name: name for name in _OMLT_NAMES.values()}}
    wrong = [name for name in given if name not in known]
    if wrong:
        raise ProblemError(
            f"scaling: unknown key {wrong[0]!r}.  Remedy: {', '.join(_OMLT_NAMES.values())}"
        )
    return Scaling(**{known[name]: _in_order(values) for name, values in given.items()})


def _omlt_arguments(given: Any) -> dict[str, Any]:
    """Return offsets and factors of OMLT's ``OffsetScaling``, which are private there."""
    kept = ("x_offset", "x_factor", "y_offset", "y_factor")
    found = {
        name: getattr(given, f"_OffsetScaling__{attribute}", None)
        for name, attribute in zip(_OMLT_NAMES, kept, strict=True)
    }
    if any(values is None for values in found.values()):
        raise ProblemError(
            f"scaling={given!r} is none.  Remedy: Scaling(...), OMLT's OffsetScaling, or a dict"
        )
    return found


def _in_order(values: Any) -> Any:
    """Return values of a dict in the order of its keys; anything else as it is."""
    if not isinstance(values, Mapping):
        return values
    try:
        return [values[key] for key in sorted(values)]
    except TypeError:
        return list(values.values())
