"""PyTorch modules become the networks that they compute."""

from __future__ import annotations

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra 'torch')")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

import lipyomo  # noqa: E402
from lipyomo.base.errors import ImportRefused, MissingExtra  # noqa: E402
from lipyomo.formats.importers import from_torch  # noqa: E402
from lipyomo.formats.onnx.gates import SoftplusThreshold  # noqa: E402


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(5, 5)
        self.second = nn.Linear(5, 5)
        self.scale = nn.Parameter(torch.tensor(0.7))

    def forward(self, x):
        h = torch.relu(self.first(x))
        return functional.leaky_relu(x + self.scale * self.second(h), 0.2) - 1.0


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3, padding=1)
        self.head = nn.Linear(2 * 2 * 16, 3)

    def forward(self, x):
        a = functional.relu6(self.conv(x))
        b = -self.conv(x).abs().clamp(min=0.1)
        joined = torch.cat([a, b], dim=1)
        return self.head(joined.view(x.size(0), -1))


class ShapeReader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(6, 2)

    def forward(self, x):
        return self.head(x.reshape(x.shape[0], -1))


class Functions(nn.Module):
    """The style of many examples: everything but the weights is a function."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv2d(1, 4, 3), nn.Linear(4, 2)

    def forward(self, x):
        x = functional.max_pool2d(functional.relu(self.conv(x)), 2)
        x = functional.avg_pool2d(functional.hardtanh(x, -0.5, max_val=0.8), 2, stride=1)
        x = functional.dropout(x.mean(dim=(2, 3)), training=self.training)
        return self.head(torch.flatten(functional.hardsigmoid(x), 1)) / 2.0


class Body(nn.Module):
    """A module whose forward is any function of one input."""

    def __init__(self, body) -> None:
        super().__init__()
        self.body = body

    def forward(self, x):
        return self.body(x)


class Squeezed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stack = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))

    def forward(self, x):
        return self.stack(x).squeeze(-1)


class Asserting(nn.Module):
    """Asserts something of the shape, and if told so of the numbers."""

    def __init__(self, numbers: bool = False) -> None:
        super().__init__()
        self.head, self.numbers = nn.Linear(3, 2), numbers

    def forward(self, x):
        assert x.shape[1] == 3
        if self.numbers:
            assert (x > -1e6).all()
        return torch.stack([self.head(row) for row in x])


class Recurrent(nn.Module):
    def __init__(self, cell: type[nn.Module]) -> None:
        super().__init__()
        self.cell = cell(3, 2, batch_first=True)

    def forward(self, x):
        return self.cell(x)[0]


MODULES = {
    "squeezed": (Squeezed(), (3,)),
    "index": (Body(lambda x: x[:, 1:] - x[:, :1].abs()), (3,)),
    "flatten": (Body(lambda x: x.flatten(2)), (3, 2, 2)),
    "padding": (nn.Conv2d(1, 1, 3, padding=1, padding_mode="reflect"), (1, 4, 4)),
    "adaptive": (nn.AdaptiveAvgPool2d(2), (1, 4, 4)),
    "mlp": (nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 2)), None),
    "leaky": (nn.Sequential(nn.Linear(3, 6), nn.LeakyReLU(0.1), nn.Linear(6, 2)), (3,)),
    "no-bias": (nn.Sequential(nn.Linear(3, 6, bias=False), nn.PReLU(), nn.Linear(6, 2)), None),
    "norm": (nn.Sequential(nn.Linear(3, 6), nn.BatchNorm1d(6), nn.Hardtanh(-0.3, 0.4)), None),
    "hard": (nn.Sequential(nn.Linear(3, 4), nn.Hardsigmoid(), nn.Linear(4, 2), nn.ReLU6()), None),
    "nested": (nn.Sequential(nn.Sequential(nn.Linear(3, 4), nn.ReLU()), nn.Identity()), None),
    "conv": (
        nn.Sequential(
            nn.Conv2d(1, 4, 3, stride=2, padding=1),
            nn.BatchNorm2d(4),
            nn.PReLU(4),
            nn.Conv2d(4, 4, 3, padding="same", groups=2, bias=False),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(16, 3),
        ),
        (1, 8, 8),
    ),
    "pool": (
        nn.Sequential(
            nn.Conv2d(2, 2, 3),
            nn.LeakyReLU(),
            nn.AvgPool2d(2, padding=1),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        ),
        (2, 6, 6),
    ),
    "conv1d": (nn.Sequential(nn.Conv1d(2, 3, 3), nn.ReLU(), nn.MaxPool1d(2, 1)), (2, 7)),
    "residual": (Residual(), None),
    "branches": (Branches(), (1, 4, 4)),
    "shape": (ShapeReader(), (2, 3)),
    "functions": (Functions(), (1, 8, 8)),
    "single": (nn.Linear(3, 2), None),
    "softshrink": (nn.Sequential(nn.Linear(3, 4), nn.Softshrink(0.3), nn.Linear(4, 2)), None),
    "threshold": (nn.Sequential(nn.Linear(3, 4), nn.Threshold(0.2, 0.2), nn.Linear(4, 2)), None),
    "hardshrink": (nn.Hardshrink(0.0), (3,)),
    "where": (Body(lambda x: torch.where(x > 0, x, 0.1 * x)), (3,)),
    "mask": (Body(lambda x: x * (x > 0)), (3,)),
    "upsampled": (nn.Sequential(nn.Conv2d(1, 2, 3), nn.Upsample(None, 2.0, "bilinear")), (1, 5, 5)),
    "resized": (nn.Upsample((5, 7), mode="bicubic", align_corners=True), (1, 4, 4)),
    "asserts of shapes": (Asserting(), (3,)),
}


@pytest.mark.parametrize("case", MODULES, ids=str)
def test_modules(case: str) -> None:
    module, shape = MODULES[case]
    torch.manual_seed(3)
    for child in module.modules():
        if isinstance(child, nn.BatchNorm1d | nn.BatchNorm2d):
            nn.init.normal_(child.running_mean)
            nn.init.uniform_(child.running_var, 0.5, 2.0)
    network = from_torch(module, shape)
    module.eval()
    full = shape or (network.input_dim,)
    points = np.random.default_rng(1).normal(size=(12, network.input_dim)).astype(np.float32)
    with torch.no_grad():
        expected = module(torch.from_numpy(points).reshape(-1, *full)).reshape(12, -1).numpy()
    np.testing.assert_allclose(network.forward(points), expected, atol=2e-5)


def test_weights_are_exact() -> None:
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    network = from_torch(module)
    assert np.array_equal(network.layers[0].dense_weight, module[0].weight.detach().double())
    assert np.array_equal(network.head.bias, module[2].bias.detach().double())


def test_training_mode_is_left_as_it_was() -> None:
    module = nn.Sequential(nn.Linear(3, 4), nn.Dropout(), nn.Linear(4, 2)).train()
    from_torch(module)
    assert module.training
    assert module[0].weight.dtype == torch.float32


class TwoInputs(nn.Module):
    def forward(self, x, y):
        return x + y


class Branching(nn.Module):
    def forward(self, x):
        return x if x.sum() > -1e6 else -x


ACTIVATIONS = {
    "tanh": (nn.Tanh(), "tanh"),
    "sigmoid": (nn.Sigmoid(), "sigmoid"),
    "softplus": (nn.Softplus(), "softplus"),
    "softplus, steeper": (nn.Softplus(2.0), "softplus"),
    "elu": (nn.ELU(0.5), "elu(0.5)"),
    "selu": (nn.SELU(), "selu(1.6732631921768188, 1.0507010221481323)"),
    "celu": (nn.CELU(0.25), "celu(0.25)"),
    "gelu": (nn.GELU(), "gelu"),
    "gelu, tanh": (nn.GELU("tanh"), "gelu(tanh)"),
    "silu": (nn.SiLU(), "silu"),
    "mish": (nn.Mish(), "mish"),
    "softsign": (nn.Softsign(), "softsign"),
    "hardswish": (nn.Hardswish(), "hard_swish"),
    "tanhshrink": (nn.Tanhshrink(), "tanh"),
    "sin": (Body(torch.sin), "sin"),
    "cos": (Body(torch.cos), "cos"),
    "erf": (Body(torch.erf), "erf"),
    "quick": (Body(lambda x: x * torch.sigmoid(1.5 * x)), "swish(1.5)"),
    "log sigmoid": (nn.LogSigmoid(), "softplus"),
}


@pytest.mark.parametrize("case", ACTIVATIONS)
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.filterwarnings("ignore::lipyomo.formats.onnx.gates.SoftplusThreshold")
def test_smooth_activations(case: str, kind: torch.dtype) -> None:
    activation, name = ACTIVATIONS[case]
    module = nn.Sequential(nn.Linear(3, 7), activation, nn.Linear(7, 2)).to(kind)
    network = from_torch(module)
    assert network.activations == {name: 7}
    x = torch.randn(20, 3, dtype=torch.float64)
    expected = copy.deepcopy(module).double()(x).detach().numpy()
    np.testing.assert_allclose(network.forward(x.numpy()), expected, atol=1e-6)


def test_an_example_gives_the_shape() -> None:
    module = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Tanh(), nn.Flatten())
    network = lipyomo.from_torch(module, torch.zeros(5, 1, 4, 4))
    assert network.input_shape == (1, 4, 4)
    assert network.activations == {"tanh": 8}
    for example, shape in ((torch.zeros(4), None), (torch.zeros(1, 1, 4, 4), (1, 4, 4))):
        with pytest.raises(ImportRefused, match="example"):
            from_torch(module, example, input_shape=shape)


def test_the_threshold_of_softplus_is_told() -> None:
    with pytest.warns(SoftplusThreshold, match=r"\('1'\) jumps by 2.1e-09"):
        from_torch(nn.Sequential(nn.Linear(3, 2), nn.Softplus()))
    with pytest.warns(SoftplusThreshold, match="Softplus jumps by 2.1e-09"):
        from_torch(Body(nn.functional.softplus), (3,))


PRODUCTS = {
    "function": (Body(torch.exp), (3,), "exp"),
    "product": (Body(lambda x: x * x), (3,), "square"),
    "softmax": (nn.Sequential(nn.Linear(3, 2), nn.Softmax(dim=1)), None, "sigmoid"),
    "norm": (nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4)), None, "square rsqrt"),
    "norm of two": (nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2)), None, "square rsqrt"),
    "gate": (nn.Sequential(nn.Linear(3, 4), nn.GLU()), None, "sigmoid square"),
    "lstm": (Recurrent(nn.LSTM), (4, 3), "sigmoid tanh square"),
    "gru": (Recurrent(nn.GRU), (4, 3), "sigmoid tanh square"),
    "rnn": (Recurrent(nn.RNN), (4, 3), "tanh"),
    "norm of signals": (Body(lambda x: torch.linalg.norm(x, dim=1)), (3,), "square sqrt"),
}


@pytest.mark.parametrize("case", PRODUCTS, ids=str)
def test_products_of_signals(case: str) -> None:
    module, shape, kinds = PRODUCTS[case]
    network = from_torch(module, shape)
    assert set(network.activations) == set(kinds.split())
    x = torch.rand(20, *(shape or (3,)))
    expected = module(x).detach().numpy()
    found = network.forward(x.reshape(20, -1).numpy().astype(float))
    np.testing.assert_allclose(found, expected.reshape(found.shape), atol=1e-5)


REFUSED = {
    "rounded": (Body(lambda x: torch.div(x, 2, rounding_mode="floor")), (3,), "Floor"),
    "several": (Body(lambda x: (x, x + 1.0)), (3,), "2 outputs"),
    "divisor": (nn.AvgPool2d(2, divisor_override=3), (1, 4, 4), "disagree"),
    "jump": (nn.Sequential(nn.Linear(3, 2), nn.Softplus(1.0, 3.0)), None, "jumps by 0.049"),
    "call": (Body(lambda x: nn.functional.softplus(x - 9.0, 1.0, 3.0)), (3,), "jumps by 0.049"),
    "no-shape": (nn.Sequential(nn.Conv2d(1, 1, 3)), None, "input_shape"),
    "wrong-shape": (nn.Sequential(nn.Conv2d(1, 1, 3)), (2, 5, 5), "shape (2, 5, 5)"),
    "two-inputs": (TwoInputs(), (3,), "one input"),
    "rare-branch": (Branching(), (3,), "`return x if x.sum() > -1e6 else -x`"),
    "assert": (Asserting(True), (3,), "`assert (x > -1e6).all()`"),
    "threshold": (nn.Threshold(0.5, 0.2), (3,), "Threshold ('') jumps by 0.3"),
    "hardshrink": (nn.Sequential(nn.Hardshrink()), (3,), "Hardshrink ('0') jumps by 0.5"),
    "mask": (Body(lambda x: x * (x > 0.5)), (3,), "jumps by 0.5 where"),
    "single point": (Body(lambda x: (x > 0) * 1.0 + (x < 0) * 1.0), (3,), "jumps by 1 where"),
    "whole numbers": (Body(lambda x: x.int() * torch.sigmoid(x)), (3,), "cast to int32"),
    "half": (nn.Linear(3, 2).half(), None, "float16"),
    "statistics": (
        nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2, track_running_stats=False)),
        None,
        "one input of shape (3,)",
    ),
}


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_refusals(case: str) -> None:
    module, shape, words = REFUSED[case]
    with pytest.raises(ImportRefused) as caught:
        from_torch(module, shape)
    assert words in str(caught.value)
    assert caught.value.remedy
    assert "--output-node" not in str(caught.value)  # there is no such argument


def test_traced_and_scripted_modules() -> None:
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    expected = from_torch(module)
    for other in (torch.jit.trace(module, torch.zeros(1, 3)), torch.jit.script(module)):
        found = from_torch(other, (3,))
        for one, two in zip(found.layers, expected.layers, strict=True):
            assert np.array_equal(one.dense_weight, two.dense_weight)
            assert np.array_equal(one.bias, two.bias)


def test_compiled_modules_are_taken_as_they_were_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(*args: object, **options: object) -> None:
        raise AssertionError("compiled")

    plain = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    inside = nn.Sequential(torch.compile(plain, backend=never), nn.Tanh())
    in_place = copy.deepcopy(plain)
    in_place.compile(backend=never)
    function = Body(torch.compile(torch.relu, backend=never))
    assert from_torch(torch.compile(plain, backend=never)).sizes == (3, 4, 1)
    assert from_torch(inside).activations == {"tanh": 1}
    assert from_torch(in_place).sizes == (3, 4, 1)
    assert from_torch(function, (3,)).kinked_units == 3


def test_exporters_are_silent(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ImportRefused):
        from_torch(Body(lambda x: functional.threshold(x, 0.5, 0.2)), (3,))
    assert capfd.readouterr() == ("", "")


def test_batch_normalisation_is_not_rounded_into_the_layer_before_it() -> None:
    module = nn.Sequential(nn.Linear(1, 1, bias=False), nn.BatchNorm1d(1, eps=0.0, affine=False))
    module[0].weight.data.fill_(3.0)
    module[1].running_var.fill_(7.0)
    network = from_torch(module)
    found = network.jacobian(network.pattern([1.0]))
    assert found[0, 0] == pytest.approx(3.0 / np.sqrt(7.0), rel=1e-15)


def test_double_modules_keep_their_digits() -> None:
    module = nn.Sequential(nn.Linear(1, 1)).double()
    module[0].weight.data.fill_(1.0 / 3.0)
    assert from_torch(module).layers[0].dense_weight[0, 0] == 1.0 / 3.0


def test_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"lipyomo\[torch\]"):
        from_torch(nn.Sequential(nn.Linear(1, 1)))
