"""The linear algebra of curved programs beside the same with dense matrices of all terms."""

import numpy as np
import pytest
from test_curved_model import ball_of, build

from lipyomo.networks.activations import Sigmoid, Tanh
from lipyomo.relaxations.semidefinite.curved_model import CurvedModel
from lipyomo.relaxations.semidefinite.curved_system import CurvedSystem


def dense(model):
    """Terms S_i (K, N, N), costs (K,) and slacks' rows (m, K), term by term."""
    program, extension = model.plain, model.plain.extension
    n = program.variables
    F = np.concatenate([np.eye(n), extension])
    terms, costs, rows = [np.zeros((n, n))], [1.0], []
    terms[0][0, 0] = 1.0

    def term(a, b):
        terms.append(-0.5 * (np.outer(a, b) + np.outer(b, a)))
        costs.append(0.0)

    left, right = program.left.toarray() @ F, program.right.toarray() @ F
    for k in range(len(program.equality)):
        term(np.zeros(n), np.zeros(n))
        for a, b in zip(left[program.owners == k], right[program.owners == k], strict=True):
            terms[-1] -= 0.5 * (np.outer(a, b) + np.outer(b, a))
    sphere = np.zeros(n)
    sphere[program.ball], sphere[0] = 1.0, -1.0
    term(np.zeros(n), np.zeros(n))
    terms[-1] += np.diag(sphere)
    signed = [1 + k for k in np.flatnonzero(~program.equality)] + [len(terms) - 1]
    slots, nodes = [], []
    for curves in model.curves:
        for columns, points in zip(curves.columns, curves.nodes, strict=True):
            own = []
            for i in range(len(columns)):
                for j in range(max(i, 1), len(columns)):
                    own.append((len(terms), i, j))
                    term(F[columns[i]], F[columns[j]])
            slots.append(own)
            nodes.append(points)
    constants = len(terms)
    for _ in slots:
        term(np.zeros(n), np.zeros(n))
        costs[-1] = 1.0
    for k in signed:
        rows.append(np.eye(len(terms))[k])
    for unit, (own, points) in enumerate(zip(slots, nodes, strict=True)):
        for c in points:
            rows.append(np.zeros(len(terms)))
            rows[-1][constants + unit] = 1.0
            for k, i, j in own:
                rows[-1][k] = c[i] * c[j]
    return np.array(terms), np.array(costs), np.array(rows)


def positive(rng, n):
    half = rng.normal(size=(n, n))
    return half @ half.T + np.eye(n)


@pytest.mark.parametrize("sizes", [(6, 4), (6, 4, 3), (5, 3, 2, 3)])
def test_it_is_what_dense_matrices_of_all_terms_give(sizes):
    rng = np.random.default_rng(0)
    low, high = -rng.uniform(0.1, 1.0, sizes[0]), rng.uniform(0.1, 1.0, sizes[0])
    layers, row = build(rng, sizes, [Tanh(), Sigmoid(), Tanh()][: len(sizes) - 1], low, high)
    model = CurvedModel(layers, ball_of(layers, low, high), row, row)
    system = CurvedSystem(model.plain, model.curves)
    S, costs, G = dense(model)
    assert system.costs == pytest.approx(costs)
    v, x = rng.normal(size=len(costs)), rng.uniform(0.1, 2.0, len(G))
    assert system.slacks(v) == pytest.approx(G @ v)
    assert system.weighted(x) == pytest.approx(G.T @ x)
    assert system.combine(v) == pytest.approx(np.einsum("k,kab->ab", v, S))
    X, P = positive(rng, S.shape[1]), positive(rng, S.shape[1])
    assert system.traces(X) == pytest.approx(np.einsum("kab,ab->k", S, X))
    M = np.einsum("iab,bc,jcd,da->ij", S, X, S, P, optimize=True)
    M = 0.5 * (M + M.T) + G.T @ (x[:, None] * G)
    right = M @ v
    residual = M @ system.solver(X, P, x)(right) - right
    assert np.abs(residual).max() <= 1e-7 * np.abs(right).max()


def test_multipliers_are_those_that_it_was_started_with():
    rng = np.random.default_rng(1)
    layers, row = build(rng, (6, 4, 3), [Tanh(), Tanh()], -np.ones(6), np.ones(6))
    model = CurvedModel(layers, ball_of(layers, -np.ones(6), np.ones(6)), row, row)
    system = CurvedSystem(model.plain, model.curves)
    y, forms = rng.normal(size=len(model.plain.equality) + 1), []
    for curves in model.curves:
        Q = rng.normal(size=(len(curves.columns), *2 * curves.columns.shape[1:]))
        forms.append(Q + Q.transpose(0, 2, 1))
    v = system.started(y, forms)
    again, found = system.multipliers(v)
    assert again == pytest.approx(y)
    for one, other in zip(found, forms, strict=True):
        assert one == pytest.approx(other)
    values = [
        np.einsum("npa,nab,npb->np", curves.nodes, Q, curves.nodes).ravel()
        for curves, Q in zip(model.curves, forms, strict=True)
    ]
    assert system.slacks(v)[-sum(map(len, values)) :] == pytest.approx(np.concatenate(values))
