"""Down a path of a tree, few Newton steps a node come close to the best bound."""

from __future__ import annotations

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.relaxations.semidefinite.dense import DenseKernel
from lipyomo.relaxations.semidefinite.descent import minimise


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
