"""Expressions of a network, its derivatives and its inputs, converted to networks.

An example is the residual of a differential equation, for a network that was trained to solve it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from lipyomo.base.arguments import instance, real_number, real_numbers
from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.base.errors import NetworkError
from lipyomo.networks.activations import Activation, Cos, Exp, Log, Power, Sin, Tanh
from lipyomo.networks.building.affine import Tensor, stack
from lipyomo.networks.building.trace import Trace
from lipyomo.networks.derivatives.jets import Jets
from lipyomo.networks.derivatives.replay import Replay, is_constant, made
from lipyomo.networks.network import Network, check_network

FUNCTIONS: Mapping[Any, Activation] = {
    np.sin: Sin(),
    np.cos: Cos(),
    np.tanh: Tanh(),
    np.exp: Exp(),
    np.log: Log(),
    np.square: Power(2.0),
    np.sqrt: Power(0.5),
    np.reciprocal: Power(-1.0),
}
"""Activations of numpy's functions."""


class Expression(NDArrayOperatorsMixin):
    """A vector-valued function of the inputs of a network.

    Sums, products, quotients, integer and half-integer powers and numpy's sin, cos, tanh, exp, log,
    square and sqrt of expressions are expressions; single entries are broadcast.  Division by a
    number multiplies by its reciprocal in float64.

    Parameters
    ----------
    trace : Trace
    tensor : Tensor, shape (n,)
    """

    def __init__(self, trace: Trace, tensor: Tensor) -> None:
        self._trace, self._tensor = trace, tensor

    def __len__(self) -> int:
        return self._tensor.size

    def __getitem__(self, index: int | slice) -> Expression:
        places = np.atleast_1d(np.arange(len(self))[index])
        return Expression(self._trace, self._tensor.take(places))

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **other: Any) -> Expression:
        """Apply numpy's functions and operators, which those of Python call."""
        found: Tensor | None = None
        if method == "__call__" and not other:
            found = self._applied(function, inputs)
        if found is None:
            known = ", ".join(one.__name__ for one in FUNCTIONS)
            raise NetworkError(
                f"numpy's {function.__name__} of an expression is not supported.  Remedy: use one "
                f"of {known}"
            )
        return Expression(self._trace, found)

    def _applied(self, function: Any, inputs: Sequence[Any]) -> Tensor | None:
        """Return a function of expressions and numbers; None if it is not known."""
        trace, (one, *rest) = self._trace, inputs
        if function is np.negative:
            return -self._tensor
        if function in FUNCTIONS or (function is np.multiply and rest[0] is one):
            return trace.smooth(self._tensor, FUNCTIONS.get(function, Power(2.0)))
        if function is np.power and one is self:
            exponent = real_number(rest[0], "the exponent of an expression", NetworkError)
            return one._tensor if exponent == 1 else trace.smooth(one._tensor, Power(exponent))
        if function is np.true_divide:
            known = isinstance(rest[0], Expression)
            inverse = rest[0] ** -1 if known else np.divide(1.0, rest[0])
            return self._applied(np.multiply, (one, inverse))
        if function is np.subtract:
            return self._applied(np.add, (one, -rest[0]))
        if function is np.multiply:
            a, b = self._pair(*inputs)
            return a.scale(b.offset) if is_constant(b) else trace.times(a, b)
        if function is np.add:
            a, b = self._pair(*inputs)
            return a.shift(b.offset) if is_constant(b) else a + b
        return None

    def _pair(self, one: Any, other: Any) -> tuple[Tensor, Tensor]:
        """Return two terms or factors, broadcast to one size; numbers last."""
        if not isinstance(one, Expression):
            one, other = other, one
        if not isinstance(other, Expression):
            numbers: FloatArray = real_numbers(other, "a number in an expression", NetworkError)
            if not np.isfinite(numbers).all():
                raise NetworkError("an expression has a number that is NaN or infinite")
            other = Expression(self._trace, Tensor.constant(numbers.reshape(-1)))
        if one._trace is not other._trace:
            raise NetworkError("an expression has parts of two networks.  Remedy: use one")
        a, b = one._tensor, other._tensor
        if a.size != b.size and 1 not in (a.size, b.size):
            raise NetworkError(f"an expression has parts of {a.size} and of {b.size} entries")
        size = max(a.size, b.size)
        return a.take(np.broadcast_to(a.index, size)), b.take(np.broadcast_to(b.index, size))


class InputExpressions(Expression):
    """The inputs of a network: ``x[0]``, or ``x.t`` by their names."""

    def __init__(self, trace: Trace, tensor: Tensor, names: tuple[str, ...]) -> None:
        super().__init__(trace, tensor)
        self._names = names

    def __getattr__(self, name: str) -> Expression:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self._names:
            known = ", ".join(self._names) or "no names; use x[0]"
            raise NetworkError(f"there is no input {name!r}: the inputs have {known}")
        return self[self._names.index(name)]


class Field(Expression):
    """The outputs of a network, with their derivatives: ``u.d(0, 1)``, or ``u.dtx`` by names."""

    def __init__(self, jets: Jets, names: tuple[str, ...], rows: IntArray) -> None:
        output = jets.output(())
        super().__init__(jets.replay.trace, output.take(rows))
        self._jets, self._names, self._rows = jets, names, rows

    def __getitem__(self, index: int | slice) -> Field:
        return Field(self._jets, self._names, np.atleast_1d(self._rows[index]))

    def d(self, *inputs: int | str) -> Expression:
        """Return the partial derivative with respect to inputs, by number or by name."""
        size = self._jets.replay.network.input_dim
        numbers = []
        for one in inputs:
            if isinstance(one, str) and one in self._names:
                numbers.append(self._names.index(one))
            elif isinstance(one, int) and 0 <= one < size:
                numbers.append(one)
            else:
                known = ", ".join(self._names) or f"0 .. {size - 1}"
                raise NetworkError(f"there is no input {one!r}; there are {known}")
        found = self._jets.output(tuple(numbers)).take(self._rows)
        return Expression(self._trace, found)

    def __getattr__(self, name: str) -> Expression:
        if name.startswith("_"):
            raise AttributeError(name)
        numbers = self._read(name[1:]) if name.startswith("d") else None
        if not numbers:
            known = ", ".join(f"d{one}" for one in self._names) or "d(0), d(0, 1) ..."
            raise NetworkError(f"{name!r} is no derivative of the network; there are {known}")
        return self.d(*numbers)

    def _read(self, word: str) -> list[int] | None:
        """Return the names of inputs written one after the other."""
        if not word:
            return []
        for k, one in enumerate(self._names):
            rest = self._read(word[len(one) :]) if word.startswith(one) else None
            if rest is not None:
                return [k, *rest]
        return None


def residual(
    net: Network, expression: Callable[[Field, InputExpressions], Any], name: str | None = None
) -> Network:
    """Convert an expression of a network, its derivatives and its inputs to a network.

    Parameters
    ----------
    net : Network
        A network with smooth units.
    expression : callable
        Function of the outputs u and the inputs x that returns an `Expression`, or several, such as
        ``lambda u, x: u.dt + u * u.dx - 0.01 * u.dxx`` if inputs are named t and x; by numbers
        these are ``u.d(0)``, ``u.d(1, 1)`` and ``x[0]``.  ``u[k]`` is one of several outputs.
    name : str, optional

    Raises
    ------
    NetworkError
        If the expression has unknown names, or needs a derivative that is not supported.

    Examples
    --------
    >>> import lipyomo
    >>> u = lipyomo.Network.from_arrays([[[2.0]], [[1.0]]], activation="sin")  # sin(2 x)
    >>> r = lipyomo.networks.residual(u, lambda u, x: u.d(0, 0) + 4 * u)
    >>> float(abs(r.forward([[0.3], [-2.0]])).max())
    0.0
    """
    check_network(net, NetworkError)
    if not callable(expression):
        raise NetworkError("the expression must be a function of u and x")
    replay = Replay.of(net)
    names = tuple(net.input_names or ())
    d = net.input_dim
    u = Field(Jets(replay, np.eye(d)), names, np.arange(net.output_dim))
    x = InputExpressions(replay.trace, replay.trace.input((d,)), names)
    found = expression(u, x)
    parts = list(found) if isinstance(found, tuple | list) else [found]
    for part in parts or [None]:
        instance(part, Expression, "what the expression returns", NetworkError, "use u and x in it")
        if part._trace is not replay.trace:
            raise NetworkError("what the expression returns is of another network")
    return made(
        replay.trace, stack([p._tensor for p in parts]), name or f"residual of {net.name}", net
    )
