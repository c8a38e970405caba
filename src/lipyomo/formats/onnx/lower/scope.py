"""The tensors of a graph while its nodes are lowered."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from lipyomo.formats.onnx.gates import Formula, Pending, formula
from lipyomo.formats.onnx.graph import Array, GraphNode, reads
from lipyomo.formats.onnx.lower.quantised import KEEPING, Quantisers, Rounded, StepGrid
from lipyomo.formats.onnx.lower.registry import Lowered, Value
from lipyomo.networks.building.affine import Tensor
from lipyomo.networks.building.budget import budget


class Scope:
    """The tensors of a graph while its nodes are lowered, each until its last use.

    Parameters
    ----------
    nodes : list of GraphNode
    known : dict of str to Value
        The initial tensors.
    kept : set of str
        Tensors that are not removed: the outputs.
    outer : Scope, optional
        Scope of the enclosing graph.
    quantisers : Quantisers, optional
        Records quantisers; without it they are refused.

    Attributes
    ----------
    grids : dict of str to StepGrid
        Grids on which all entries of a tensor are known to lie, by its name.
    """

    def __init__(
        self,
        nodes: list[GraphNode],
        known: dict[str, Value],
        kept: set[str],
        outer: Scope | None = None,
        quantisers: Quantisers | None = None,
    ) -> None:
        self.known: dict[str, Value | Pending | Rounded] = dict(known)
        self.grids: dict[str, StepGrid] = {}
        self.quantisers: Quantisers | None = quantisers if outer is None else outer.quantisers
        self.formulas: dict[str, Formula] = {}
        self.written_out: set[str] = set()
        self.outer = outer
        self._kept = kept
        self._readers = Counter(name for node in nodes for name in reads(node.proto))
        budget().keep(sum(size_of(value) for value in known.values()))

    def get(self, name: str) -> Value | Pending | Rounded | None:
        """Return a tensor of this graph or of an enclosing one."""
        if name in self.known or self.outer is None:
            return self.known.get(name)
        return self.outer.get(name)

    def formula(self, name: str) -> Formula | Array | None:
        """Return the formula of a tensor; a constant itself."""
        if name not in self.known and self.outer is not None:
            return self.outer.formula(name)
        value = self.known.get(name)
        if isinstance(value, Pending):
            return value.formula
        if isinstance(value, Tensor) and name not in self.formulas:
            self.formulas[name] = Formula(value.shape, value)
        if isinstance(value, Rounded):
            return None
        return self.formulas.get(name) if isinstance(value, Tensor) else value

    def grid_behind(self, node: GraphNode) -> StepGrid | None:
        """Return the grid of a node's outputs, if all of their entries lie on a single one."""
        if node.op_type not in KEEPING:
            return None
        signals = [name for name in node.inputs if isinstance(self.get(name), Tensor)]
        grids = [self.grids.get(name) for name in signals]
        first = grids[0] if grids else None
        same = [g is not None and g.step.ndim == 0 and g.is_same(first) for g in grids if first]
        constants = node.op_type == "Concat" and len(signals) < len(node.inputs)
        return first if same and all(same) and not constants else None

    def formula_of(self, node: GraphNode, value: Tensor | None = None) -> Formula | None:
        """Return the formula of a node's output."""
        return formula(node, [self.formula(name) for name in node.inputs], value)

    def add(self, node: GraphNode, lowered: Lowered | Pending | Rounded) -> None:
        """Store the outputs of a node, and remove tensors that no later node reads."""
        alone = isinstance(lowered, Tensor | np.ndarray | Pending | Rounded)
        outputs: Any = [lowered] if alone else lowered
        grid = self.grid_behind(node)
        if grid is not None:
            self.grids |= dict.fromkeys(node.outputs, grid)
        only = outputs[0] if len(outputs) == 1 else None
        if isinstance(only, Tensor):
            found = self.formula_of(node, only)
            if found is not None:
                self.formulas[node.outputs[0]] = found
        for name, value in zip(node.outputs, outputs, strict=False):
            if name and (name in self._readers or name in self._kept):
                self.known[name] = value
                budget().keep(size_of(value))
        for name in reads(node.proto):
            self._readers[name] -= 1
            if not self._readers[name] and name not in self._kept and name in self.known:
                budget().keep(-size_of(self.known.pop(name)))
                self.formulas.pop(name, None)


def size_of(value: Value | Pending | Rounded) -> int:
    """Return the bytes of a tensor."""
    return int(value.nbytes)
