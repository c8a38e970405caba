"""Products with a factor in common once more in Arb: the formulas of `together`."""

from __future__ import annotations

from collections.abc import Sequence

from flint import arb

from lipyomo_check.smooth.balls import Numbers
from lipyomo_check.smooth.common import Common
from lipyomo_check.smooth.strict_factors import Form, left_of, plane_error


def sum_of(terms: Sequence[tuple[arb, Form]]) -> Form:
    """Return a sum of multiples of signals."""
    turn: Numbers = [arb(0)] * len(terms[0][1].turn)
    centre, away, low, high = (arb(0) for _ in range(4))
    for c, form in terms:
        turn = [t + c * own for t, own in zip(turn, form.turn, strict=True)]
        centre, away = centre + c * form.centre, away + abs(c) * form.away
        one, other = c * form.ends[0], c * form.ends[1]
        low, high = low + one.min(other), high + one.max(other)
    reach = sum(map(abs, turn), away)
    return Form(turn, centre, away, (low.max(centre - reach), high.min(centre + reach)))


class Group:
    """A group of products with what its members' outputs and tangents are multiplied by.

    Parameters
    ----------
    common : Common
    number : int
    forms : (list of Form, list of Form)
        z and u of all rows.
    factors : (list of arb, list of arb)
        Of all products.
    point : list of float
        f and g of P r, and those of Q r'.
    """

    def __init__(
        self,
        common: Common,
        number: int,
        forms: tuple[list[Form], list[Form]],
        factors: tuple[Numbers, Numbers],
        point: Sequence[float],
    ) -> None:
        own = [k for k, group in enumerate(common.group.tolist()) if group == number]
        self.products = [int(common.products[k]) for k in own]
        self.second = [bool(common.second[k]) for k in own]
        self._others = [int(common.others[k]) for k in own]
        self._row = int(common.rows[number])
        self._forms = forms
        scales = [arb(float(common.scale[k])) for k in own]
        self._a, self._b = (
            [side[n] * scale for n, scale in zip(self.products, scales, strict=True)]
            for side in factors
        )
        self._point = list(map(arb, point))

    def constant(self) -> arb:
        """Return the constant that both planes add."""
        (z, u), one = self._forms, arb(1)
        f, g, F, G = self._point
        triples = list(zip(self._a, self._b, self._others, strict=True))
        P = sum_of([(a, z[k]) for a, _, k in triples] + [(b, u[k]) for _, b, k in triples])
        Q = sum_of([(b, z[k]) for _, b, k in triples])
        found = plane_error(one, left_of(P, z[self._row], f, g)) - f * g
        return found + plane_error(one, left_of(Q, u[self._row], F, G)) - F * G

    def slopes(self) -> list[tuple[arb, arb]]:
        """Return slopes of each member's other row, and of the row in common."""
        f, g, _, G = self._point
        pairs = enumerate(zip(self._a, self._b, strict=True))
        return [(a * g + b * G, f if n == 0 else arb(0)) for n, (a, b) in pairs]

    def rates(self) -> list[tuple[arb, arb]]:
        """Return their rates."""
        _, g, F, _ = self._point
        return [(b * g, F if n == 0 else arb(0)) for n, b in enumerate(self._b)]
