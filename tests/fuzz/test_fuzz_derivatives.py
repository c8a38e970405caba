"""A few derivative networks against differences in 200 digits, and against torch's autograd."""

from __future__ import annotations

import numpy as np
import pytest
from fuzz_derivatives import draw, faults

from lipyomo import networks


@pytest.mark.parametrize("seed", [0, 1, 2308])
def test_no_promise_is_broken(seed: int) -> None:
    assert faults(seed, 0.2) == []


@pytest.mark.parametrize("seed", range(100, 106))
def test_derivatives_are_those_of_autograd(seed: int) -> None:
    torch = pytest.importorskip("torch", reason="compares with the extra [torch]")
    kinds = {
        "tanh": torch.tanh,
        "sigmoid": torch.sigmoid,
        "softplus": torch.nn.functional.softplus,
        "silu": torch.nn.functional.silu,
        "gelu": torch.nn.functional.gelu,
        "erf": torch.erf,
        "sin": torch.sin,
        "cos": torch.cos,
    }
    network, box, rng = draw(seed)

    def function(h: torch.Tensor) -> torch.Tensor:
        for layer in network.layers:
            z = torch.tensor(layer.dense_weight) @ h + torch.tensor(layer.bias)
            parts = list(z)
            for curve in layer.curves:
                for unit in curve.units.tolist():
                    parts[unit] = kinds[curve.activation.name](z[unit])
            h = torch.stack(parts)
        return h[0]

    gradient, hessian = networks.gradient(network), networks.hessian(network)
    for x in box.sample(rng, 5):
        at = torch.tensor(x)
        own = torch.autograd.functional.jacobian(function, at).numpy()
        bent = torch.autograd.functional.hessian(function, at).numpy()
        size = 1.0 + np.abs(bent).max()
        np.testing.assert_allclose(gradient.forward(x), own, rtol=0, atol=1e-11 * size)
        np.testing.assert_allclose(hessian.forward(x), bent.ravel(), rtol=0, atol=1e-11 * size)
