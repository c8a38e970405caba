"""Down a path of a tree, few Newton steps a node come close to the best bound."""

from __future__ import annotations

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.relaxations.semidefinite.dense import DenseKernel
from lipyomo.relaxations.semidefinite.descent import minimise
from lipyomo.relaxations.semidefinite.wide import WideKernel


def test_few_steps_a_node_when_the_target_is_nearly_met() -> None:
    count, steps, losses = 40, 0, []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        rows = rng.uniform(-1.0, 1.0, (count, count)) / np.sqrt(count)
        last = rng.uniform(-1.0, 1.0, count) / np.sqrt(count)
        units, decided = np.arange(count), np.zeros(count)

        def kernel(
            units: FloatArray,
            decided: FloatArray,
            rows: FloatArray = rows,
            last: FloatArray = last,
        ) -> DenseKernel:
            own = np.hstack([rows[units], np.zeros((len(units), len(units)))])
            return DenseKernel(own, np.concatenate([decided, last[units]]), count, False)

        state = minimise(kernel(units, decided))
        for unit in rng.permutation(count)[:12]:
            assert state is not None
            if rng.random() < 0.5:
                decided = decided + last[unit] * rows[unit]
            position = int(np.flatnonzero(units == unit)[0])
            units, warm = np.delete(units, position), np.delete(state.multipliers, count + position)
            state = minimise(kernel(units, decided), warm, 0.97 * state.value)
            best = minimise(kernel(units, decided))
            assert state is not None
            assert best is not None
            steps += state.iterations
            losses.append(state.value / best.value)
    assert steps < 7 * len(losses)
    assert np.mean(losses) < 1.004


def test_few_steps_with_many_inputs() -> None:
    """The first length of a step falls with the number of inputs, and must not stay there."""
    inputs, count, steps, losses = 200, 12, 0, []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        rows = np.hstack([rng.standard_normal((count, inputs)), np.zeros((count, count))])
        objective = np.concatenate([3.0 * rng.standard_normal(inputs), np.ones(count)])
        whole = WideKernel(rows, objective, inputs)
        state = minimise(whole)
        assert state is not None
        keep = np.delete(np.arange(inputs + count), inputs)
        part = WideKernel(rows[1:, keep], objective[keep], inputs)
        found = minimise(part, state.multipliers[keep])
        best = minimise(part)
        assert found is not None
        assert best is not None
        steps += found.iterations
        losses.append(found.value / best.value)
    assert steps < 20 * len(losses)
    assert np.mean(losses) < 1.002
