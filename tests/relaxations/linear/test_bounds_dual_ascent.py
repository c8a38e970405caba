"""Dual-ascent bounds hold for any multipliers, and go to the optimum of the triangle relaxation."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

from lipyomo.base.arrays import FloatArray
from lipyomo.networks.network import Layer, Network
from lipyomo.networks.phases import LEFT, OPEN, RIGHT
from lipyomo.problems.affine.system import UnitSystem
from lipyomo.problems.domains import Box, Domain, NormBall, Polytope, ball
from lipyomo.relaxations.linear.dual_ascent import DualAscent
from lipyomo.relaxations.linear.dual_steps import NodeTriangles, WantedBounds
from lipyomo.relaxations.linear.layers import Stack
from lipyomo.relaxations.linear.preactivation import propagate
from networks import mixed_network, random_network


class Setting:
    """A network on a domain, and nodes that decide some units as random points have them."""

    def __init__(self, network: Network, domain: Domain, nodes: int, share: float) -> None:
        self.network, self.domain = network, domain
        self.system = UnitSystem(network, np.eye(network.output_dim), domain)
        system, rng = self.system, np.random.default_rng(0)
        self.points = domain.sample(rng, 4000)
        self.values = np.hstack(network.preactivations(self.points))
        given = np.tile(system.root_phases(), (nodes, 1))
        for b in range(nodes):
            chosen = system.kinked & (rng.random(system.count) < share)
            given[b, chosen] = np.where(self.values[b] > 0, RIGHT, LEFT)[chosen]
        low, high = (np.tile(side, (nodes, 1)) for side in (domain.lower, domain.upper))
        self.stack = Stack.unknown(given, low, high)
        propagate(network.hidden, domain, self.stack, intervals=False)
        assert self.stack.alive.all()
        self.ascent = DualAscent(network.hidden, domain)

    def relax(self) -> NodeTriangles:
        s = self.stack
        return self.ascent.relax(s.phases, s.lower, s.upper, s.low, s.high)

    def rows(self) -> WantedBounds:
        """Both sides of every unstable unit of every node."""
        node, unit = np.nonzero(self.stack.phases == OPEN)
        signs = np.repeat([1.0, -1.0], node.size)
        return WantedBounds(np.tile(node, 2), np.tile(unit, 2), signs)

    def members(self, node: int) -> FloatArray:
        """Pre-activations (n, N) of the sampled points that lie in a node."""
        phases, z = self.stack.phases[node], self.values
        right = (phases != RIGHT) | (z >= 0) | ~self.system.kinked
        left = (phases != LEFT) | (z <= 0) | ~self.system.kinked
        return np.asarray(z[(right & left).all(axis=1)])


DOMAINS: dict[str, Domain] = {
    "box": Box(-1, 1, 4),
    "l1 ball": ball(np.zeros(4), 1.5, "l1"),
    "clipped l2 ball": ball(np.full(4, 0.2), 1.0, "l2", (np.zeros(4), np.ones(4))),
    "polytope": Polytope([[1, 1, 1, 1], [1, -1, 0.5, 0]], [1.0, 0.3], -np.ones(4), np.ones(4)),
}


@pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)
@pytest.mark.parametrize("seed", range(3))
def test_bounds_hold_for_any_multipliers(domain: Domain, seed: int) -> None:
    setting = Setting(mixed_network(seed, (4, 7, 6, 5, 2)), domain, 4, 0.3)
    relaxation, rows = setting.relax(), setting.rows()
    rng = np.random.default_rng(seed)
    size = (rows.count, setting.ascent.columns)
    wild = rng.normal(0, 1, size).astype(np.float32)
    steered = setting.ascent.ascend(
        relaxation, rows, setting.ascent.start(relaxation, rows), steps=15
    )
    for multipliers in (wild, steered):
        bounds = setting.ascent.bounds(relaxation, rows, multipliers)
        for node in range(4):
            z = setting.members(node)
            mine = rows.node == node
            if mine.any():
                assert len(z)
                reached = (rows.sign[mine] * z[:, rows.unit[mine]]).max(axis=0)
                assert (reached <= bounds[mine]).all()


def triangle_optima(setting: Setting, node: int, rows: WantedBounds) -> FloatArray:
    """Largest ``sign * z_unit`` in x, z and h over the triangles of a node, by linear programs."""
    system, s = setting.system, setting.stack
    d, n = system.inputs, system.count
    equal, below = [], []
    bounds = [*zip(s.low[node], s.high[node], strict=True)]
    bounds += [(None, None)] * (2 * n)
    width = d + 2 * n + 1
    for i, layer in enumerate(setting.network.hidden):
        span = system.span(i)
        before = np.arange(d) if i == 0 else d + n + np.arange(*system.starts[i - 1 : i + 1])
        for q, k in enumerate(range(span.start, span.stop)):
            row = np.zeros(width)
            row[before], row[d + k], row[-1] = layer.dense_weight[q], -1.0, -layer.bias[q]
            equal.append(row)
            phase, a, b = s.phases[node, k], system.left[k], system.right[k]
            low, u = s.lower[node, k], s.upper[node, k]
            if phase != OPEN:
                row = np.zeros(width)
                row[d + n + k], row[d + k] = 1.0, -(b if phase == RIGHT else a)
                equal.append(row)
                if system.kinked[k]:
                    bounds[d + k] = (0, None) if phase == RIGHT else (None, 0)
                continue
            sign = 1.0 if b >= a else -1.0
            for slope in (a, b):
                row = np.zeros(width)
                row[d + n + k], row[d + k] = -sign, sign * slope
                below.append(row)
            chord = (b * u - a * low) / (u - low)
            row = np.zeros(width)
            row[d + n + k], row[d + k], row[-1] = sign, -sign * chord, sign * (a - chord) * low
            below.append(row)
    domain = setting.domain.rows
    for face, limit in zip(domain.A.toarray(), domain.b, strict=True):
        below.append(np.concatenate([face, np.zeros(2 * n), [limit]]))
    E, A = np.array(equal), np.array(below)
    found = []
    for unit, sign in zip(rows.unit, rows.sign, strict=True):
        cost = np.zeros(width - 1)
        cost[d + unit] = -sign
        answer = linprog(cost, A[:, :-1], A[:, -1], E[:, :-1], E[:, -1], bounds)
        assert answer.status == 0
        found.append(-answer.fun)
    return np.array(found)


@pytest.mark.parametrize("name", ["box", "polytope"])
@pytest.mark.parametrize("seed", range(2))
def test_many_steps_reach_the_triangle_relaxation(name: str, seed: int) -> None:
    setting = Setting(mixed_network(10 + seed, (4, 8, 7, 5, 2)), DOMAINS[name], 1, 0.4)
    relaxation, rows = setting.relax(), setting.rows()
    start = setting.ascent.start(relaxation, rows)
    first = setting.ascent.bounds(relaxation, rows, start)
    best = triangle_optima(setting, 0, rows)
    previous = np.inf
    for steps, share in ((12, 0.6), (300, 0.95)):
        found = setting.ascent.ascend(relaxation, rows, start, steps)
        bounds = setting.ascent.bounds(relaxation, rows, found)
        assert (bounds >= best - 1e-7).all()
        assert (first - bounds).sum() >= share * (first - best).sum()
        assert bounds.sum() <= previous
        previous = bounds.sum()


@pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)
def test_no_bound_ends_above_where_it_began(domain: Domain) -> None:
    """However few the steps, from scratch and from multipliers that are good already."""
    setting = Setting(mixed_network(21, (4, 8, 7, 5, 2)), domain, 3, 0.4)
    relaxation, rows = setting.relax(), setting.rows()
    start = setting.ascent.start(relaxation, rows)
    for began in (start, setting.ascent.ascend(relaxation, rows, start, 200)):
        before = setting.ascent.bounds(relaxation, rows, began)
        for steps in (0, 1, 2, 24):
            found = setting.ascent.ascend(relaxation, rows, began, steps)
            after = setting.ascent.bounds(relaxation, rows, found)
            assert (after <= before + 1e-5 * relaxation.size[rows.node, rows.unit]).all()


@pytest.mark.parametrize("slope", [0.0, 0.7])
def test_the_evaluation_is_safe_against_rounding(slope: float) -> None:
    """The same bound in rational numbers is never above what is given out."""
    network = random_network(5, (3, 4, 4, 1))
    scaled = [1e3 * layer.dense_weight for layer in network.hidden]
    biases = [np.array([1e6, -1e-3, 0.1, 3.0]) * layer.bias for layer in network.hidden]
    network = Network.from_arrays(
        [*scaled, network.head.dense_weight], [*biases, np.zeros(1)], slope
    )
    setting = Setting(network, Box(-1 / 3, 0.7, 3), 3, 0.4)
    relaxation, rows = setting.relax(), setting.rows()
    multipliers = setting.ascent.ascend(
        relaxation, rows, setting.ascent.start(relaxation, rows), steps=10
    )
    bounds = setting.ascent.bounds(relaxation, rows, multipliers)
    system, s = setting.system, setting.stack
    F = Fraction
    for r in range(rows.count):
        b, aim = int(rows.node[r]), int(rows.unit[r])
        lam, total = [F(0)] * 4, F(0)
        for i in (1, 0):
            mu = []
            for q in range(4):
                k = 4 * i + q
                m = F(float(multipliers[r, k]))
                low, u = F(float(s.lower[b, k])), F(float(s.upper[b, k]))
                value = F(int(rows.sign[r])) if k == aim else F(0)
                if s.phases[b, k] != OPEN:
                    on = s.phases[b, k] == RIGHT
                    value += lam[q] * (1 if on else F(slope)) + (m if on else -m)
                elif lam[q] > 0:
                    value += lam[q] * (u - F(slope) * low) / (u - low)
                    total -= lam[q] * (1 - F(slope)) * low * u / (u - low)
                else:
                    value += lam[q] * max(m, F(slope))
                total += value * F(float(system.network.hidden[i].bias[q]))
                mu.append(value)
            weight = system.network.hidden[i].dense_weight
            lam = [
                sum((mu[q] * F(float(weight[q, j])) for q in range(4)), F(0))
                for j in range(weight.shape[1])
            ]
        for j, c in enumerate(lam):
            total += c * F(float(s.high[b, j] if c > 0 else s.low[b, j]))
        assert float(bounds[r]) >= total
        assert float(bounds[r]) <= total + F(1, 10**6) * (abs(total) + 10**6)


def test_nodes_together_are_nodes_alone() -> None:
    setting = Setting(mixed_network(3, (4, 7, 6, 2)), DOMAINS["box"], 3, 0.3)
    relaxation, rows = setting.relax(), setting.rows()
    start = setting.ascent.start(relaxation, rows)
    together = setting.ascent.ascend(relaxation, rows, start, 6)
    for node in range(3):
        mine = np.flatnonzero(rows.node == node)
        alone = setting.ascent.ascend(relaxation, rows[mine], start[mine], 6)
        for pick, found in ((mine, together[mine]), (mine, alone)):
            bounds = setting.ascent.bounds(relaxation, rows[pick], found)
            assert np.isfinite(bounds).all()
        np.testing.assert_allclose(
            setting.ascent.bounds(relaxation, rows[mine], together[mine]), bounds, rtol=1e-4
        )


def test_bounds_scale_with_a_layer() -> None:
    """A layer four times as large: the steps, and so the bounds, only scale with it."""
    found = []
    for factor in (1.0, 4.0):
        plain = random_network(8, (4, 8, 8, 2))
        weights = [layer.dense_weight for layer in plain.layers]
        biases = [layer.bias for layer in plain.layers]
        weights[0], biases[0] = factor * weights[0], factor * biases[0]
        weights[1] = weights[1] / factor
        setting = Setting(Network.from_arrays(weights, biases), DOMAINS["box"], 2, 0.3)
        relaxation, rows = setting.relax(), setting.rows()
        steered = setting.ascent.ascend(
            relaxation, rows, setting.ascent.start(relaxation, rows), steps=8
        )
        bounds = setting.ascent.bounds(relaxation, rows, steered)
        found.append(np.where(rows.unit < 8, bounds / factor, bounds))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4, atol=1e-6)


def test_contradicting_decisions_cross_the_bounds() -> None:
    """x <= -0.1 by a unit of the first layer, x > 0.1 by one of the second: nothing is left."""
    network = Network.from_arrays(
        [[[1.0], [1.0]], [[0.0, 1.0], [0.0, 1.0]], [[1.0, 1.0]]],
        [np.array([0.1, 1.0]), np.array([-1.1, -1.05]), np.zeros(1)],
    )
    setting = Setting(network, Box(-1, 1, 1), 1, 0.0)
    phases = setting.stack.phases
    phases[0] = [LEFT, RIGHT, RIGHT, OPEN]
    relaxation = setting.relax()
    rows = WantedBounds(np.zeros(2, int), np.array([3, 3]), np.array([1.0, -1.0]))
    start = setting.ascent.start(relaxation, rows)
    bounds = setting.ascent.bounds(
        relaxation, rows, setting.ascent.ascend(relaxation, rows, start, 60)
    )
    assert bounds[0] < -bounds[1]


def test_sparse_weights_give_the_same_bounds() -> None:
    dense = mixed_network(4, (4, 7, 6, 2))
    layers = [
        Layer(sp.csr_array(layer.weight), layer.bias, layer.left, layer.right)
        for layer in dense.layers
    ]
    found = []
    for network in (dense, Network(layers)):
        setting = Setting(network, DOMAINS["polytope"], 2, 0.3)
        relaxation, rows = setting.relax(), setting.rows()
        start = setting.ascent.start(relaxation, rows)
        steered = setting.ascent.ascend(relaxation, rows, start, 5)
        found.append(setting.ascent.bounds(relaxation, rows, steered))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4, atol=1e-6)


def test_a_ball_is_tighter_than_its_box() -> None:
    network = random_network(2, (4, 6, 6, 2))
    sums = []
    for domain in (ball(np.zeros(4), 1.0, "l2"), ball(np.zeros(4), 1.0, "linf")):
        setting = Setting(network, domain, 1, 0.0)
        assert isinstance(domain, NormBall) == (not sums)
        relaxation, rows = setting.relax(), setting.rows()
        steered = setting.ascent.ascend(
            relaxation, rows, setting.ascent.start(relaxation, rows), steps=20
        )
        sums.append(setting.ascent.bounds(relaxation, rows, steered).sum() / rows.count)
    assert sums[0] < sums[1]


def test_weights_that_are_not_exact_widen_bounds_by_what_they_can_change() -> None:
    """Biases of one layer are off by known numbers: no bound may be narrower than the truth's."""
    network, domain = random_network(3, (3, 6, 5, 1)), Box(-1, 1, 3)
    rng, first = np.random.default_rng(0), network.hidden[0]
    errors = np.concatenate([rng.uniform(0.0, 0.3, 6), np.zeros(5)])
    stack = Stack.unknown(
        np.full((1, 11), OPEN, dtype=np.int8),
        *(side[None] for side in (domain.lower, domain.upper)),
    )
    propagate(network.hidden, domain, stack, errors=errors, intervals=False)
    ascent = DualAscent(network.hidden, domain, errors)
    relaxation = ascent.relax(stack.phases, stack.lower, stack.upper, stack.low, stack.high)
    rows = WantedBounds(
        np.zeros(12, dtype=int), np.tile(np.arange(6), 2), np.repeat([1.0, -1.0], 6)
    )
    found = ascent.bounds(relaxation, rows, ascent.start(relaxation, rows))
    reach = np.abs(first.dense_weight).sum(axis=1)  # over the box, which is symmetric
    truth = np.concatenate([first.bias + reach, reach - first.bias]) + np.tile(errors[:6], 2)
    assert (found >= truth * (1 - 1e-12)).all()
    assert (found <= truth + 2.0 * np.tile(errors[:6], 2) + 1e-6).all()
