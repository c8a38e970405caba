"""The instances: a network, a domain and two norms each, and what is known of their constants."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import lipyomo
from lipyomo import Box, LipschitzProblem
from lipyomo.base.errors import ProblemError

FOLDER = Path(__file__).resolve().parent
NETWORKS, PROOFS = FOLDER / "networks", FOLDER / "proofs"
INSTANCES, TRUTH, ESTIMATES = (
    FOLDER / f"{name}.json" for name in ("instances", "truth", "estimates")
)


@dataclass(frozen=True)
class Instance:
    """What is asked of one network.

    Attributes
    ----------
    name : str
    family : str
    network : str
        File in ``networks/``.
    lower, upper : tuple of float
        Ends of the box, an entry for each input in the order of the flattened input.
    norm, output_norm : {'linf', 'l1', 'l2'}
        Of the inputs and of the outputs; for one output every output norm is the absolute value.
    functional : tuple of float, optional
        c: the scalar ``|c . f|`` instead of an output norm.
    made : str
        How the network was made.
    """

    name: str
    family: str
    network: str
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    norm: str
    output_norm: str
    functional: tuple[float, ...] | None
    made: str

    @property
    def path(self) -> Path:
        """Where the network is."""
        return NETWORKS / self.network

    @property
    def problem(self) -> LipschitzProblem:
        """The same for Python."""
        outputs = self.output_norm if self.functional is None else None
        network, box = lipyomo.load(self.path), Box(self.lower, self.upper)
        return LipschitzProblem(network, box, self.norm, outputs, self.functional)

    @property
    def words(self) -> list[str]:
        """The command line of lipyomo that asks for it, without the program's name."""
        ends = list(zip(self.lower, self.upper, strict=True))
        if len(set(ends)) == 1:
            box = f"--box={self.lower[0]!r},{self.upper[0]!r}"
        else:
            box = "--box=" + ",".join(f"{low!r}:{high!r}" for low, high in ends)
        found = [str(self.path), box, "--norm", self.norm]
        if self.functional is None:
            return [*found, "--output-norm", self.output_norm]
        return [*found, "--functional=" + ",".join(map(repr, self.functional))]


@dataclass(frozen=True)
class Truth:
    """What is known of an instance's constant.

    Attributes
    ----------
    lower, upper : float
        Equal but for the accuracy where the constant is known.
    status : str
        ``exact``, or why the interval is open.
    seconds : float
        CPU seconds of the command that found it.
    proof : str or None
        File in ``proofs/``, if one was written and is not too large to keep.
    """

    lower: float
    upper: float
    status: str
    seconds: float
    proof: str | None = None

    @property
    def is_exact(self) -> bool:
        """Whether the constant is known."""
        return self.status == "exact"


def read_instances(names: Sequence[str] = ()) -> list[Instance]:
    """The instances in the order of the file.

    Parameters
    ----------
    names : sequence of str, optional
        Only those whose name or family contains one of these.

    Raises
    ------
    ProblemError
        If none does, or the file is missing.
    """
    found = []
    for record in _read(INSTANCES):
        item: dict[str, Any] = {
            key: tuple(v) if isinstance(v, list) else v for key, v in record.items()
        }
        found.append(Instance(**item))
    chosen = [
        one for one in found if not names or any(n in one.name or n in one.family for n in names)
    ]
    if not chosen:
        raise ProblemError(f"no instance is called {', '.join(names)}.  Remedy: see 'list'")
    return chosen


def write_instances(instances: Sequence[Instance]) -> None:
    """Write ``instances.json``."""
    _write(INSTANCES, [asdict(one) for one in instances])


def read_truth() -> dict[str, Truth]:
    """What is known, by the names of instances."""
    records = _read(TRUTH) if TRUTH.exists() else {}
    return {name: Truth(**record) for name, record in records.items()}


def write_truth(truth: dict[str, Truth]) -> None:
    """Write ``truth.json``."""
    _write(TRUTH, {name: asdict(one) for name, one in sorted(truth.items())})


def read_estimates() -> dict[str, dict[str, list[float | None]]]:
    """Value and CPU seconds by instance and tool; no value where a tool refuses or fails."""
    return dict(_read(ESTIMATES)) if ESTIMATES.exists() else {}


def write_estimates(estimates: dict[str, dict[str, list[float | None]]]) -> None:
    """Write ``estimates.json``."""
    _write(ESTIMATES, dict(sorted(estimates.items())))


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ProblemError(f"cannot read '{path}': {error.strerror}") from None


def _write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
