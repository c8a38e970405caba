"""Networks from files, as the options say: one, or the difference of two."""

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
    from lipyomo.problems.domains import Domain


LEAST = 1.0
"""Seconds that an import may always take: on a busy machine Python's start can take the rest."""


@dataclass(frozen=True)
class Source:
    """One file, and what is taken of it.

    Attributes
    ----------
    path : Path
    output : str or None
        Where it is cut.
    fixed : mapping of str to ndarray
        Values of inputs.
    """

    path: Path
    output: str | None
    fixed: Mapping[str, FloatArray]

    def load(self, **limits: Any) -> Network:
        """The network, not compared with onnxruntime yet; `limits` as of `lipyomo.load`."""
        from lipyomo.formats.onnx import load

        return load(self.path, output=self.output, fixed=self.fixed, check=False, **limits)

    def load_quantised(self, **limits: Any) -> QuantisedNetwork:
        """The network, which may round signals, likewise."""
        from lipyomo.formats.onnx import load_quantised

        return load_quantised(
            self.path, output=self.output, fixed=self.fixed, check=False, **limits
        )

    def check(self, network: Network | QuantisedNetwork, domain: Sampler | None) -> float:
        """The largest difference of an output from what onnxruntime computes."""
        from lipyomo.formats.onnx import check_against_runtime, check_quantised

        asked: dict[str, Any] = {"domain": domain, "output": self.output, "fixed": self.fixed}
        if isinstance(network, Network):
            return check_against_runtime(network, self.path, **asked)
        return check_quantised(network, self.path, **asked)


@dataclass(frozen=True)
class NamedNetwork:
    """The network that the options name.

    Attributes
    ----------
    network : Network
        Of inputs, and of errors where signals are rounded.
    parts : tuple of Network or QuantisedNetwork
        One, or two whose difference it is.
    sources : tuple of Source
        Of the parts.
    quantised : QuantisedNetwork or None
        The step function, where signals are rounded.
    """

    network: Network
    parts: tuple[Network | QuantisedNetwork, ...]
    sources: tuple[Source, ...]
    quantised: QuantisedNetwork | None = None

    @property
    def input_dim(self) -> int:
        """Number of inputs, without errors."""
        return (self.quantised or self.network).input_dim

    def widened(self, domain: Domain) -> Domain:
        """A domain of the inputs as one of the network, errors included."""
        if self.quantised is None:
            return domain
        from lipyomo.analyses.questions.quantised import domain_with_errors

        return domain_with_errors(self.quantised, domain)

    @property
    def only(self) -> Path | None:
        """The file of a network that is no difference."""
        return self.sources[0].path if len(self.sources) == 1 else None

    def check(self, domain: Sampler | None = None) -> float:
        """Compare all parts with onnxruntime; the largest difference of an output."""
        pairs = zip(self.sources, self.parts, strict=True)
        return max(source.check(network, domain) for source, network in pairs)


def network_given_by(
    arguments: argparse.Namespace,
    time_limit: float = math.inf,
    memory_limit: int | None = None,
    rounds: bool = False,
) -> NamedNetwork:
    """Load what the options name.

    Parameters
    ----------
    arguments : Namespace
        With `network`, `output` and maybe `minus` and `fix`.
    time_limit : float, optional
        Seconds a file.
    memory_limit : int, optional
        Bytes.
    rounds : bool, optional
        Whether networks may round signals; they are refused otherwise.

    Raises
    ------
    LipyomoError
        If a file is refused, or two networks do not fit together.
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
