"""Networks from the files given by options: a single network, or the difference of two."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lipyomo.networks.combined import difference
from lipyomo.networks.network import Network
from lipyomo.networks.quantised import quantised_difference

if TYPE_CHECKING:
    from lipyomo.base.arrays import FloatArray
    from lipyomo.formats.onnx.check import Sampler
    from lipyomo.networks.quantised import QuantisedNetwork


LEAST = 1.0
"""Least time limit of an import in seconds, as Python's start may have used up the command's."""


@dataclass(frozen=True, eq=False)
class Source:
    """An ONNX file, and the part of it that is used.

    Attributes
    ----------
    path : Path
    output : str or None
        Node at which it is cut.
    fixed : mapping of str to ndarray
        Fixed values of inputs.
    """

    path: Path
    output: str | None
    fixed: Mapping[str, FloatArray]

    def load(self, **limits: Any) -> Network:
        """Load the network, without comparing it with onnxruntime; `limits`: see `lipyomo.load`."""
        from lipyomo.formats.onnx import load

        return load(self.path, output=self.output, fixed=self.fixed, check=False, **limits)

    def load_quantised(self, **limits: Any) -> QuantisedNetwork:
        """Load a network that may be quantised, in the same way."""
        from lipyomo.formats.onnx import load_quantised

        return load_quantised(
            self.path, output=self.output, fixed=self.fixed, check=False, **limits
        )

    def check(self, network: Network | QuantisedNetwork, domain: Sampler | None) -> float:
        """Compare with onnxruntime; return the largest difference of an output."""
        from lipyomo.formats.onnx import check_against_runtime, check_quantised

        asked: dict[str, Any] = {"domain": domain, "output": self.output, "fixed": self.fixed}
        if isinstance(network, Network):
            return check_against_runtime(network, self.path, **asked)
        return check_quantised(network, self.path, **asked)


@dataclass(frozen=True, eq=False)
class NamedNetwork:
    """The network given by the options.

    Attributes
    ----------
    network : Network
        The network; if quantised, a function of inputs and rounding errors.
    parts : tuple of Network or QuantisedNetwork
        The network itself, or the two whose difference it is.
    sources : tuple of Source
        Sources of the parts.
    quantised : QuantisedNetwork or None
        The step function, if signals are rounded.
    """

    network: Network
    parts: tuple[Network | QuantisedNetwork, ...]
    sources: tuple[Source, ...]
    quantised: QuantisedNetwork | None = None

    @property
    def input_dim(self) -> int:
        """Number of inputs, without rounding errors."""
        return (self.quantised or self.network).input_dim

    @property
    def only(self) -> Path | None:
        """The file of the network; None for a difference."""
        return self.sources[0].path if len(self.sources) == 1 else None

    def check(self, domain: Sampler | None = None) -> float:
        """Compare all parts with onnxruntime; return the largest difference of an output."""
        pairs = zip(self.sources, self.parts, strict=True)
        return max(source.check(network, domain) for source, network in pairs)


def network_given_by(
    arguments: argparse.Namespace,
    time_limit: float = math.inf,
    memory_limit: int | None = None,
    rounds: bool = False,
) -> NamedNetwork:
    """Load the network given by the options.

    Parameters
    ----------
    arguments : Namespace
        Has `network`, `output` and possibly `minus` and `fix`.
    time_limit : float, optional
        Seconds per file.
    memory_limit : int, optional
        Bytes.
    rounds : bool, optional
        Whether quantised networks are allowed.

    Raises
    ------
    LipyomoError
        If a file is refused, or the sizes of two networks do not match.
    """
    fixed = dict(getattr(arguments, "fix", None) or ())
    minus = getattr(arguments, "minus", None)
    paths = [arguments.network, *([] if minus is None else [minus])]
    sources = tuple(Source(path, arguments.output, fixed) for path in paths)
    limits: dict[str, Any] = {"time_limit": time_limit, "memory_limit": memory_limit}
    if not rounds:
        parts = tuple(source.load(**limits) for source in sources)
    else:
        read = tuple(source.load_quantised(**limits) for source in sources)
        if any(one.rounded for one in read):
            both = read[0] if minus is None else quantised_difference(read[0], read[1])
            return NamedNetwork(both.network, read, sources, both)
        parts = tuple(one.network for one in read)
    whole = parts[0] if minus is None else difference(parts[0], parts[1])
    return NamedNetwork(whole, parts, sources)
