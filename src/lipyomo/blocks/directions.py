"""The inputs along which directions count: those that can move, as in `lipyomo.solve`."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from lipyomo.base.arrays import BoolArray
from lipyomo.base.errors import ProblemError
from lipyomo.blocks.assumptions import FixedInputWarning, Unmoving, can_move
from lipyomo.blocks.labels import Labels
from lipyomo.networks.naming import Names
from lipyomo.networks.network import Network


def directions_of(
    block: Any,
    network: Network,
    labels: Labels,
    moving: Sequence[bool],
    wrt: Any,
    sources: Sequence[Any] = (),
) -> BoolArray:
    """Along which inputs directions count, with a warning where some do not.

    That the others cannot move is relied on, unless it was said which ones count.

    Parameters
    ----------
    block : FormulationBlockData
        For messages.
    network : Network
    labels : Labels
        Of its inputs.
    moving : sequence of bool, length d
        Which inputs can move.  At a single point, where none can, all of them count.
    wrt : iterable of keys or positions, or None
        Which inputs are asked for; None stands for those that can move.
    sources : sequence, optional
        The inputs as they were given, where they are what moves.  Where a domain holds one, the
        block that has its rows relies on it.

    Raises
    ------
    ProblemError
        If `wrt` names no input, or one that is not there.

    Warns
    -----
    FixedInputWarning
        If inputs are left out that were not asked to be.
    """
    keys = labels.keys
    if wrt is not None:
        return _named(wrt, labels, network.input_names)
    found = np.array(moving, dtype=bool)
    if not found.any() or found.all():
        return np.ones(len(keys), dtype=bool)
    held = (source for source, moves in zip(sources, found, strict=False) if not moves)
    block._record.assumptions.extend(Unmoving(item) for item in held if not can_move(item))
    still = [keys[j] for j in np.flatnonzero(~found)]
    shown = ", ".join(map(str, still[:5])) + (" ..." if len(still) > 5 else "")
    warnings.warn(
        f"block '{block.name}': {len(still)} of {len(keys)} inputs cannot move ({shown}), and no "
        "direction along them counts.  Name the inputs that do by wrt=",
        FixedInputWarning,
        stacklevel=2,
    )
    return found


def _named(wrt: Any, labels: Labels, names: Names | None) -> BoolArray:
    """The inputs that were asked for."""
    own = {name: j for j, name in enumerate(names or ())}
    found = np.zeros(len(labels), dtype=bool)
    if isinstance(wrt, str) or not isinstance(wrt, Iterable):
        raise ProblemError(f"wrt={wrt!r} is no list of inputs.  Remedy: their indices, like [0, 2]")
    for key in wrt:
        place = labels.place(key)
        place = own.get(key) if place is None else place
        if place is None:
            raise ProblemError(f"wrt: there is no input {key!r}")
        found[place] = True
    if not found.any():
        raise ProblemError("wrt names no input.  Remedy: at least one, or leave it out")
    return found


def along(network: Network, counted: BoolArray) -> Network:
    """A network with the same derivatives along the inputs that count, and none along others."""
    if counted.all():
        return network
    first, *others = network.layers
    cut = first.with_map(first.weight * counted[None, :], first.bias)
    return Network([cut, *others], network.name, network.input_shape, network.output_shape)
