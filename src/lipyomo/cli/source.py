"""Networks from files, as the options say: one, or the difference of two."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lipyomo.networks.combined import difference

if TYPE_CHECKING:
    from lipyomo.base.arrays import FloatArray
    from lipyomo.formats.onnx.check import Samples
    from lipyomo.networks.network import Network


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

    def check(self, network: Network, domain: Samples | None) -> float:
        """The largest difference of an output from what onnxruntime computes."""
        from lipyomo.formats.onnx import check_against_runtime

        return check_against_runtime(
            network, self.path, domain=domain, output=self.output, fixed=self.fixed
        )


@dataclass(frozen=True)
class Given:
    """The network that the options name.

    Attributes
    ----------
    network : Network
    parts : tuple of Network
        One, or two whose difference it is.
    sources : tuple of Source
        Of the parts.
    """

    network: Network
    parts: tuple[Network, ...]
    sources: tuple[Source, ...]

    @property
    def only(self) -> Path | None:
        """The file of a network that is no difference."""
        return self.sources[0].path if len(self.sources) == 1 else None

    def check(self, domain: Samples | None = None) -> float:
        """Compare all parts with onnxruntime; the largest difference of an output."""
        pairs = zip(self.sources, self.parts, strict=True)
        return max(source.check(network, domain) for source, network in pairs)


def read_network(
    arguments: argparse.Namespace, time_limit: float = math.inf, memory_limit: int | None = None
) -> Given:
    """Load what the options name.

    Parameters
    ----------
    arguments : Namespace
        With `network`, `output` and maybe `minus` and `fix`.
    time_limit : float, optional
        Seconds a file.
    memory_limit : int, optional
        Bytes.

    Raises
    ------
    LipyomoError
        If a file is refused, or two networks do not fit together.
    """
    fixed = dict(getattr(arguments, "fix", None) or ())
    minus = getattr(arguments, "minus", None)
    paths = [arguments.network, *([] if minus is None else [minus])]
    sources = tuple(Source(path, arguments.output, fixed) for path in paths)
    parts = tuple(s.load(time_limit=time_limit, memory_limit=memory_limit) for s in sources)
    whole = parts[0] if minus is None else difference(parts[0], parts[1])
    return Given(whole, parts, sources)
