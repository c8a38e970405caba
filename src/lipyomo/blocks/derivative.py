"""Common parts of derivative blocks: the network block, functionals, and included directions.

By default, directions along inputs that can vary are included, as in `lipyomo.solve`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from lipyomo.base.arguments import brief
from lipyomo.base.arrays import BoolArray, FloatArray
from lipyomo.base.errors import NormError, ProblemError
from lipyomo.base.quantities import norm_name
from lipyomo.blocks.assumptions import FixedInputWarning, Unmoving, can_move
from lipyomo.blocks.forward import ForwardBlockData, NetworkOptions, built_block
from lipyomo.blocks.inputs import Region, is_number
from lipyomo.blocks.labels import Labels
from lipyomo.blocks.relu import ReluNetworkBlockData
from lipyomo.blocks.smooth import SmoothNetworkBlockData
from lipyomo.networks.naming import Names
from lipyomo.networks.network import Network
from lipyomo.problems.norms import InputNorm


def linear_norm(given: Any) -> InputNorm:
    """Return an input norm by name; raise `NormError` unless its unit ball is a polytope."""
    norm: InputNorm = norm_name(given)
    if norm not in ("linf", "l1"):
        raise NormError(
            f"the input norm {norm!r} is not linear, so a MIP cannot express it.  "
            "Remedy: linf or l1, or method bnb"
        )
    return norm


def network_block_kind(network: Network) -> type[ForwardBlockData]:
    """Return the class of blocks for a network's values, by the type of its units."""
    return SmoothNetworkBlockData if network.smooth else ReluNetworkBlockData


def network_block_of(
    block: Any,
    network: Any,
    inputs: Any,
    options: NetworkOptions,
    values: bool = True,
    smooth: bool = False,
) -> Any:
    """Return the block whose switches a derivative uses: a given one, or a new ``block.net``.

    Parameters
    ----------
    block : FormulationBlockData
        The block under construction.
    network : Network or ReluNetworkBlock
    inputs, values
        As in `ReluNetworkBlock`.
    options : NetworkOptions
    smooth : bool, optional
        Whether smooth networks are accepted, too.

    Raises
    ------
    ProblemError
        If a given block is not built, or was given together with options of a network.
    """
    if isinstance(network, Network):
        given = {**options, "network": network, "inputs": inputs}
        kind = network_block_kind(network) if smooth else ReluNetworkBlockData
        if kind is ReluNetworkBlockData:
            given["values"] = values
        base = block._make_part("net", kind, **given)
    else:
        curved = smooth and isinstance(network, SmoothNetworkBlockData)
        kind = SmoothNetworkBlockData if curved else ReluNetworkBlockData
        base = built_block(network, kind, inputs, options)
    block._rely_on_block(base)
    return base


def functional_of(functional: Any, labels: Labels) -> tuple[FloatArray | None, int | None]:
    """Return a fixed functional as numbers, and the position of the output if it is one.

    Both are None for variables.

    Parameters
    ----------
    functional : key of an output, its position, m numbers, or variables (not checked here)
    labels : Labels
        Of the outputs.

    Raises
    ------
    ProblemError
        If there is no such output, the length is wrong, or a number is not finite.
    """
    m = len(labels)
    is_key = isinstance(functional, int | np.integer | np.bool_ | str)
    if is_key or (isinstance(functional, tuple) and len(functional) != m):
        place = None if isinstance(functional, bool | np.bool_) else labels.place(functional)
        if place is None:
            raise ProblemError(
                f"functional={functional!r} is out of range: there is no such output.  Remedy: "
                f"{brief(labels.keys)}, {m} numbers, or {m} variables"
            )
        return np.asarray(np.eye(m)[place]), place
    if not isinstance(functional, Sequence | np.ndarray) or not all(map(is_number, functional)):
        return None, None
    values = np.asarray(functional, dtype=np.float64)
    if values.shape != (m,):
        raise ProblemError(f"the functional has {values.size} entries, the network has {m} outputs")
    if not np.isfinite(values).all():
        raise ProblemError(f"functional={functional!r} holds NaN or infinite entries")
    return values, None


def directions_of(
    block: Any, network: Network, region: Region, wrt: Any, moving: BoolArray | None = None
) -> BoolArray:
    """Return the inputs along which directions are included, with a warning if some are not.

    Without `wrt`, it becomes an assumption of the block that the other inputs cannot vary.

    Parameters
    ----------
    block : FormulationBlockData
        The block under construction.
    network : Network
    region : Region
        Of its inputs.
    wrt : iterable of keys or positions, or None
        The included inputs; None stands for those that can vary.
    moving : ndarray of bool, shape (d,), optional
        Which inputs can vary, if that does not follow from their region.  If none can (a single
        point), all are included.

    Raises
    ------
    ProblemError
        If `wrt` is empty or has an unknown input.

    Warns
    -----
    FixedInputWarning
        If inputs are excluded without `wrt`.
    """
    keys = region.labels.keys
    if wrt is not None:
        return _named(wrt, region.labels, network.input_names)
    found = np.array(region.moving if moving is None else moving, dtype=bool)
    if not found.any() or found.all():
        return np.ones(len(keys), dtype=bool)
    still = np.flatnonzero(~found).tolist()
    if moving is None:
        # Where a domain fixes an input, that is an assumption of the block with its rows.
        held = [region.sources[j] for j in still if not can_move(region.sources[j])]
        block._record.assumptions.extend(map(Unmoving, held))
    shown = ", ".join(str(keys[j]) for j in still[:5]) + (" ..." if len(still) > 5 else "")
    warnings.warn(
        f"block '{block.name}': {len(still)} of {len(keys)} inputs cannot move ({shown}), and no "
        "direction along them counts.  Name the inputs that do by wrt=",
        FixedInputWarning,
        stacklevel=2,
    )
    return found


def _named(wrt: Any, labels: Labels, names: Names | None) -> BoolArray:
    """Return the inputs named by `wrt`."""
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
