"""Encode nodes as plain arrays, for a checkpoint.

Lists of arrays of different lengths are concatenated and stored with their lengths.  Warm starts of
dual ascent are left out, as they can be recomputed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lipyomo.base.arrays import FloatArray
from lipyomo.search.engine.protocol import Arrays
from lipyomo.search.spaces.phases.node import DualCertificate, PhaseNode, Split
from lipyomo.search.spaces.phases.statistics import FEATURES

_STACKED = ("phases", "lower", "upper", "low", "high")
_RAGGED = ("targets", "target_bounds", "proved", "points", "candidates")


def encode(nodes: Sequence[PhaseNode]) -> Arrays:
    """Encode nodes as plain arrays."""
    data: Arrays = {"dropped": np.array([node.dropped for node in nodes])}
    for name in _STACKED:
        data[f"node_{name}"] = np.array([getattr(node, name) for node in nodes])
    for name in _RAGGED:
        data |= _joined(f"node_{name}", [getattr(node, name) for node in nodes])
    data |= _joined("features", [node.features.reshape(-1) for node in nodes])
    data |= _joined("trail", [_numbers(node.trail) for node in nodes])
    certificates = [(i, own) for i, node in enumerate(nodes) for own in node.certificates.values()]
    keys = [(i, own.target) for i, own in certificates]
    data["certificates"] = np.array(keys, dtype=np.int64).reshape(-1, 2)
    data |= _joined("certificate_units", [own.units for _, own in certificates])
    data |= _joined("certificate_multipliers", [own.multipliers for _, own in certificates])
    signs = [np.zeros(0) if own.signs is None else own.signs for _, own in certificates]
    data |= _joined("certificate_signs", signs)
    return data


def decode(data: Mapping[str, npt.NDArray[Any]]) -> tuple[PhaseNode, ...]:
    """Restore what `encode` returned."""
    count = len(data["dropped"])
    certificates: list[dict[int, DualCertificate]] = [{} for _ in range(count)]
    own = [_taken(data, f"certificate_{name}") for name in ("units", "multipliers", "signs")]
    for (i, target), units, y, signs in zip(data["certificates"].tolist(), *own, strict=True):
        known = signs if signs.size else None
        certificates[i][target] = DualCertificate(target, units.astype(np.int64), y, known)
    ragged: dict[str, list[Any]] = {name: _taken(data, f"node_{name}") for name in _RAGGED}
    stacked: dict[str, Any] = {name: data[f"node_{name}"] for name in _STACKED}
    features, trails = _taken(data, "features"), _taken(data, "trail")
    return tuple(
        PhaseNode(
            **{name: stacked[name][i] for name in _STACKED},
            **{name: ragged[name][i] for name in _RAGGED},
            dropped=float(data["dropped"][i]),
            certificates=certificates[i],
            features=features[i].reshape(-1, FEATURES),
            trail=_splits(trails[i]),
        )
        for i in range(count)
    )


def _joined(name: str, arrays: Sequence[npt.NDArray[Any]]) -> Arrays:
    """Concatenate arrays, and store their lengths."""
    sizes = np.array([len(array) for array in arrays], dtype=np.int64)
    return {name: np.concatenate(arrays) if arrays else np.zeros(0), f"{name}_sizes": sizes}


def _taken(data: Mapping[str, npt.NDArray[Any]], name: str) -> list[npt.NDArray[Any]]:
    """Split the arrays that `_joined` concatenated."""
    sizes = data[f"{name}_sizes"]
    return np.split(data[name], np.cumsum(sizes)[:-1]) if sizes.size else []


def _numbers(trail: tuple[Split, ...]) -> FloatArray:
    """Encode splits by four numbers: unit or input, phase (or NaN), interval (or two NaN)."""
    rows = [
        (
            s.number,
            np.nan if s.phase is None else s.phase,
            *((np.nan, np.nan) if s.ends is None else s.ends),
        )
        for s in trail
    ]
    return np.array(rows, dtype=np.float64).reshape(-1)


def _splits(numbers: FloatArray) -> tuple[Split, ...]:
    """Restore the splits that `_numbers` encoded."""
    return tuple(
        Split(int(index), None, (low, high)) if np.isnan(phase) else Split(int(index), int(phase))
        for index, phase, low, high in numbers.reshape(-1, 4).tolist()
    )
