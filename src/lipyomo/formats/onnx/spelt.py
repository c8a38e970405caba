"""Activations without an operator in ONNX, as expressions of other operators."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from flint import fmpz_poly

from lipyomo.base.arrays import FloatArray
from lipyomo.networks.activations import Activation, Exp, Log, Power
from lipyomo.networks.activations.derived import Derivative
from lipyomo.networks.activations.hyperbolic import SLOPE, TanhFamily, polynomial
from lipyomo.networks.activations.silu_derivatives import SiluFamily


class Nodes(Protocol):
    """A graph under construction."""

    def store(self, name: str, values: FloatArray) -> str:
        """Add an initializer."""

    def node(self, op_type: str, inputs: list[str], output: str) -> str:
        """Add a node with one output."""


def spelt(nodes: Nodes, kind: Activation, z: str, label: str) -> bool:
    """Add ``kind(z)`` as the tensor ``label.units`` if its constants are exact; return whether.

    Parameters
    ----------
    nodes : Nodes
    kind : Activation
        A power, exp, log, or a derivative of tanh or SiLU: polynomials of these, and of the
        logistic function.  Derivatives of erf and GELU have constants that would be rounded.
    z : str
        Tensor of pre-activations.
    label : str
    """
    output = f"{label}.units"
    if isinstance(kind, Power):
        _power(nodes, kind.exponent, z, label)
    elif isinstance(kind, Exp | Log):
        nodes.node("Exp" if isinstance(kind, Exp) else "Log", [z], output)
    elif isinstance(kind, Derivative) and isinstance(kind.family, TanhFamily):
        t = nodes.node("Tanh", [z], f"{label}.tanh")
        _polynomial(nodes, SLOPE * polynomial(kind.order), t, label, output)
    elif isinstance(kind, Derivative) and isinstance(kind.family, SiluFamily):
        s = nodes.node("Sigmoid", [z], f"{label}.sigmoid")
        many, own = kind.order * _logistic(kind.order - 1), _logistic(kind.order)
        first = _polynomial(nodes, many, s, f"{label}.first", f"{label}.first")
        second = _polynomial(nodes, own, s, f"{label}.second", f"{label}.second")
        moved = nodes.node("Mul", [z, second], f"{label}.moved")
        nodes.node("Add", [first, moved], output)
    else:
        return False
    return True


def _power(nodes: Nodes, exponent: float, z: str, label: str) -> None:
    output = f"{label}.units"
    if exponent == 2.0:
        nodes.node("Mul", [z, z], output)
    elif exponent in (0.5, -1.0):
        nodes.node("Sqrt" if exponent == 0.5 else "Reciprocal", [z], output)
    else:
        nodes.node("Pow", [z, nodes.store(f"{label}.exponent", np.array(exponent))], output)


def _logistic(order: int) -> fmpz_poly:
    """Return a derivative of the logistic function l as a polynomial in l: ``l' = l - l**2``."""
    found = fmpz_poly([0, 1])
    for _ in range(order):
        found = fmpz_poly([0, 1, -1]) * found.derivative()
    return found


def _polynomial(nodes: Nodes, polynomial: fmpz_poly, x: str, label: str, output: str) -> str:
    """Add a polynomial by Horner's rule."""
    *rest, last = map(float, polynomial.coeffs())
    found = nodes.store(f"{label}.c{len(rest)}", np.array(last))
    for k in range(len(rest) - 1, -1, -1):
        done = k == 0 and not rest[0]
        found = nodes.node("Mul", [found, x], output if done else f"{label}.times{k}")
        if rest[k]:
            term = nodes.store(f"{label}.c{k}", np.array(rest[k]))
            found = nodes.node("Add", [found, term], output if k == 0 else f"{label}.plus{k}")
    return found
