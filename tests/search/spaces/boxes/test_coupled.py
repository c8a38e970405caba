"""Roots of smooth networks with many inputs: programs in which slopes depend on the inputs."""

import numpy as np
import pytest
from scipy.special import expit

from lipyomo import Box, LipschitzProblem, Network, lipschitz
from lipyomo.base.clock import Clock
from lipyomo.networks.activations import Sigmoid
from lipyomo.networks.network import Curve, Layer
from lipyomo.search.spaces.boxes.boxes import Boxes
from lipyomo.search.spaces.boxes.context import BoxContext, BoxQuestion
from lipyomo.search.spaces.boxes.relaxing.relax import relaxed
from lipyomo.search.spaces.boxes.values import slopes_at
from lipyomo.search.spaces.boxes.wide.coupled import coupled_bounds
from lipyomo.search.spaces.boxes.wide.ranges import semidefinite_root, slopes_on

INPUTS, UNITS = 80, 8


def question(smooth=UNITS):
    """Two outputs of one hidden layer, of which some units are smooth and the others ReLUs."""
    rng = np.random.default_rng(3)
    weight = rng.normal(size=(UNITS, INPUTS)) / np.sqrt(INPUTS)
    curve = Curve(Sigmoid(), np.arange(smooth))
    hidden = Layer(weight, 2.0 * np.ones(UNITS), 0.0, 1.0, curves=(curve,))
    network = Network([hidden, Layer(rng.uniform(0.5, 1.0, (2, UNITS)), np.zeros(2))])
    return BoxQuestion(LipschitzProblem(network, Box(-0.15, 0.15, INPUTS), output_norm="linf"))


@pytest.fixture(scope="module")
def known():
    context = BoxContext.of(question())
    whole = Boxes.whole(context).take(slice(0, 1))
    layers = relaxed(context, whole, (whole.v_low, whole.v_high)).layers
    return context, layers, semidefinite_root(context, slopes_on(layers)).run(clock=Clock()).upper


def test_bounds_are_less_than_those_of_ranges_and_not_below_what_is_attained(known):
    context, layers, bounds = known
    heard = []
    found = coupled_bounds(context, layers, bounds, 0.0, Clock(), heard.append)
    assert found.max() < 0.97 * bounds.max()
    assert heard[-1] == found.max()
    rng = np.random.default_rng(0)
    points = np.where(rng.random((500, INPUTS)) < 0.5, -0.15, 0.15)
    assert slopes_at(context, points).values.max() <= found.max()


def test_targets_that_memory_has_no_room_for_begin_anew(known, monkeypatch):
    context, layers, bounds = known
    before = coupled_bounds(context, layers, bounds, 0.0, Clock(), lambda upper: None)
    monkeypatch.setattr("lipyomo.search.spaces.boxes.wide.coupled.KEPT", 0)
    found = coupled_bounds(context, layers, bounds, 0.0, Clock(), lambda upper: None)
    assert found.max() == pytest.approx(before.max(), rel=0.01)


def test_nothing_is_lowered_below_the_cutoff_or_without_time(known):
    context, layers, bounds = known
    for cutoff, clock in ((bounds.max(), Clock()), (0.0, Clock(0.0))):
        found = coupled_bounds(context, layers, bounds, cutoff, clock, lambda upper: None)
        assert (found == bounds).all()


def test_layers_with_kinks_keep_their_bounds(known):
    _, layers, bounds = known
    context = BoxContext.of(question(smooth=UNITS - 1))
    found = coupled_bounds(context, layers, bounds, 0.0, Clock(), lambda upper: None)
    assert (found == bounds).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("scale", [1e3, 1e4, 1e5])
def test_saturated_units_whose_squares_overflow_are_no_error(scale):
    rng = np.random.default_rng(0)
    shapes = (5, 96), (7, 5), (1, 7)
    weights = [
        size * rng.standard_normal(shape)
        for size, shape in zip((scale, 10.0, 1.0), shapes, strict=True)
    ]
    biases = [np.zeros(len(weight)) for weight in weights]
    network = Network.from_arrays(weights, biases, activation="sigmoid")
    center = 0.3 * rng.standard_normal(96)
    found = lipschitz(network, (center - 1e-4, center + 1e-4), norm="linf", time_limit=2)
    first, second, last = weights
    for x in center + rng.uniform(-1e-4, 1e-4, (50, 96)):
        y = expit(first @ x)
        v = expit(second @ y)
        gradient = last @ ((v * (1.0 - v))[:, None] * second) @ ((y * (1.0 - y))[:, None] * first)
        assert np.abs(gradient).sum() <= found.upper
