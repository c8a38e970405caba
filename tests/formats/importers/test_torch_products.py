"""PyTorch's layers that multiply signals, in evaluation mode, by both of its exporters."""

from __future__ import annotations

import contextlib
import io
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra 'torch')")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

import lipyomo  # noqa: E402
from lipyomo.formats.onnx import from_model  # noqa: E402

TOKENS = (3, 4)
SERIES = (3, 2)


class Called(nn.Module):
    """A layer, and how it is called."""

    def __init__(self, layer: nn.Module, call) -> None:
        super().__init__()
        self.layer, self.call = layer, call

    def forward(self, x):
        return self.call(self.layer, x)


def heads(x):
    return x.reshape(1, 3, 3, 2, 2).permute(2, 0, 3, 1, 4)


def attending(**options):
    return lambda layer, x: layer(x, x, x, need_weights=False, **options)[0]


def rolled(layer, x):
    state = None
    for step in range(x.shape[1]):
        state = layer(x[:, step], state)
    return state[0] if isinstance(state, tuple) else state


LATER = torch.ones(3, 3, dtype=torch.bool).triu(1)
MODULES = {
    "attention": lambda: (
        Called(nn.MultiheadAttention(4, 2, batch_first=True), attending()),
        TOKENS,
    ),
    "causal": lambda: (
        Called(
            nn.MultiheadAttention(4, 2, batch_first=True),
            attending(attn_mask=torch.zeros(3, 3).masked_fill(LATER, -torch.inf), is_causal=True),
        ),
        TOKENS,
    ),
    "scaled": lambda: (
        Called(
            nn.Linear(4, 12),
            lambda layer, x: functional.scaled_dot_product_attention(*heads(layer(x)), scale=0.3),
        ),
        TOKENS,
    ),
    "choice": lambda: (
        Called(
            nn.Linear(4, 12),
            lambda layer, x: functional.scaled_dot_product_attention(
                *heads(layer(x)), attn_mask=~LATER
            ),
        ),
        TOKENS,
    ),
    "normalised": lambda: (
        nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.Tanh(), nn.Linear(6, 2)),
        (4,),
    ),
    "lstm": lambda: (
        Called(nn.LSTM(2, 3, num_layers=2, batch_first=True), lambda r, x: r(x)[0][:, -1]),
        SERIES,
    ),
    "gru": lambda: (
        Called(nn.GRU(2, 3, bidirectional=True, batch_first=True), lambda r, x: r(x)[0]),
        SERIES,
    ),
    "rnn": lambda: (
        Called(nn.RNN(2, 3, nonlinearity="relu", batch_first=True), lambda r, x: r(x)[1]),
        SERIES,
    ),
    "cells of lstm": lambda: (Called(nn.LSTMCell(2, 3), rolled), SERIES),
    "cells of gru": lambda: (Called(nn.GRUCell(2, 3), rolled), SERIES),
}


def made(name: str):
    torch.manual_seed(3)
    module, shape = MODULES[name]()
    return module.eval(), shape


@pytest.mark.parametrize("name", [name for name in MODULES if name != "choice"])
def test_modules_in_one_line(name: str) -> None:
    if name == "attention":
        pytest.importorskip("onnxscript", reason="the older exporter of PyTorch cannot write it")
    module, shape = made(name)
    network = lipyomo.from_torch(module, input_shape=shape)  # which compares with the module
    assert network.input_dim == int(np.prod(shape))


def test_files_of_the_newer_exporter() -> None:
    pytest.importorskip("onnxscript")
    module, shape = made("choice")  # of rows that have no score, too
    example = torch.zeros(1, *shape) + 0.1
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        model = torch.onnx.export(module, (example,), dynamo=True, verbose=False).model_proto
    network = from_model(model, domain=lipyomo.Box(-1, 1, int(np.prod(shape))))
    points = np.random.default_rng(0).uniform(-1, 1, (5, network.input_dim)).astype(np.float32)
    with torch.no_grad():
        values = [module(torch.from_numpy(x.reshape(1, *shape))) for x in points]
    expected = np.array([value.reshape(-1).numpy() for value in values])
    np.testing.assert_allclose(network.forward(points.astype(np.float64)), expected, atol=1e-5)


def test_a_layer_of_a_transformer_is_bounded() -> None:
    pytest.importorskip("onnxscript")
    torch.manual_seed(1)
    layer = nn.TransformerEncoderLayer(4, 2, 6, batch_first=True)
    center = np.linspace(-1.0, 1.0, 8).reshape(2, 4) ** 2
    found = lipyomo.lipschitz(layer, center=center, radius=0.01, gap=0.2, time_limit=20.0)
    assert found.lower > 0.0
    assert found.upper < 1.5 * found.lower
