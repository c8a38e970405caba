"""Products in the small form: ``a b = ((a + b) / 2)**2 - ((a - b) / 2)**2``.

Every unit has one argument, so that a product is two squares.  What squares them is an activation
of its own for each side: two of them whose columns in the next weight are opposite are a product
again, ``p**2 - q**2 = (p + q) (p - q)``, for a search that knows bounds of products.  To all others
they are squares.
"""

from __future__ import annotations

from dataclasses import dataclass

from lipyomo.networks.activations.unbounded import Power


@dataclass(frozen=True)
class Half(Power):
    """The square of half of the sum, or difference, of a product's factors.

    Parameters
    ----------
    exponent : float
        Two.
    difference : bool
        Which of both.
    """

    exponent: float = 2.0
    difference: bool = False


HALVES = Half(), Half(difference=True)
"""That of the sum and that of the difference."""
