"""Expressions of a network, its derivatives and its inputs, converted to networks.

An example is the residual of a differential equation, for a network that was trained to solve it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from lipyomo.base.arguments import instance, real_number, real_numbers
from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.base.errors import NetworkError
from lipyomo.networks.activations import Activation, Cos, Exp, Log, Power, Sin, Tanh
from lipyomo.networks.building.affine import Tensor, stack
from lipyomo.networks.building.multiply import entrywise_product
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


class Expression:
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

    def _pair(self, other: Any) -> tuple[Tensor, Tensor]:
        """Return both tensors, broadcast to one size."""
        if not isinstance(other, Expression):
            numbers: FloatArray = real_numbers(other, "a number in an expression", NetworkError)
            if not np.isfinite(numbers).all():
                raise NetworkError("an expression has a number that is NaN or infinite")
            own = Tensor.constant(numbers.reshape(-1))
            other = Expression(self._trace, own)
        if other._trace is not self._trace:
            raise NetworkError("an expression has parts of two networks.  Remedy: use one")
        a, b = self._tensor, other._tensor
        if a.size != b.size and 1 not in (a.size, b.size):
            raise NetworkError(f"an expression has parts of {a.size} and of {b.size} entries")
        size = max(a.size, b.size)
        return a.take(np.broadcast_to(a.index, size)), b.take(np.broadcast_to(b.index, size))

    def __add__(self, other: Any) -> Expression:
        a, b = self._pair(other)
        return Expression(self._trace, a.shift(b.offset) if is_constant(b) else a + b)

    __radd__ = __add__

    def __neg__(self) -> Expression:
        return Expression(self._trace, -self._tensor)

    def __sub__(self, other: Any) -> Expression:
        return self.__add__(-other)

    def __rsub__(self, other: Any) -> Expression:
        return (-self).__add__(other)

    def __mul__(self, other: Any) -> Expression:
        same = other is self
        if same:
            return self._applied(Power(2.0))
        a, b = self._pair(other)
        if is_constant(b):
            return Expression(self._trace, a.scale(b.offset))
        return Expression(self._trace, entrywise_product(self._trace, a, b))

    __rmul__ = __mul__

    def __pow__(self, power: float) -> Expression:
        exponent = real_number(power, "the exponent of an expression", NetworkError)
        return self if exponent == 1 else self._applied(Power(exponent))

    def __truediv__(self, other: Any) -> Expression:
        if isinstance(other, Expression):
            return self.__mul__(other**-1)
        return self.__mul__(1.0 / np.asarray(other, dtype=np.float64))

    def __rtruediv__(self, other: Any) -> Expression:
        return (self**-1).__mul__(other)

    def _applied(self, kind: Activation) -> Expression:
        return Expression(self._trace, self._trace.smooth(self._tensor, kind))

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **other: Any) -> Expression:
        """Apply numpy's functions to expressions, and arithmetic with arrays."""
        if method == "__call__" and not other:
            if function in FUNCTIONS:
                return self._applied(FUNCTIONS[function])
            if function in _BINARY:
                a, b = inputs
                forwards, backwards = _BINARY[function]
                return forwards(a, b) if isinstance(a, Expression) else backwards(b, a)
        known = ", ".join(one.__name__ for one in FUNCTIONS)
        raise NetworkError(
            f"numpy's {function.__name__} of an expression is not supported.  Remedy: use one of "
            f"{known}"
        )


_BINARY: Mapping[Any, tuple[Callable[[Expression, Any], Expression], ...]] = {
    np.add: (Expression.__add__, Expression.__radd__),
    np.subtract: (Expression.__sub__, Expression.__rsub__),
    np.multiply: (Expression.__mul__, Expression.__rmul__),
    np.true_divide: (Expression.__truediv__, Expression.__rtruediv__),
}
"""numpy's operators, with an expression first, and with one second."""


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
    x = InputExpressions(replay.trace, _input_of(replay), names)
    found = expression(u, x)
    parts = list(found) if isinstance(found, tuple | list) else [found]
    for part in parts or [None]:
        instance(part, Expression, "what the expression returns", NetworkError, "use u and x in it")
        if part._trace is not replay.trace:
            raise NetworkError("what the expression returns is of another network")
    return made(
        replay.trace, stack([p._tensor for p in parts]), name or f"residual of {net.name}", net
    )


def _input_of(replay: Replay) -> Tensor:
    return replay.trace.input((replay.network.input_dim,))
