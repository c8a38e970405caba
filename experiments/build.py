"""Time and memory to build Pyomo models of a dense network: our blocks, bare Pyomo, OMLT.

    python -m experiments build                       # 784-256-256-10
    python -m experiments build --sizes 100 50 50 1 --no-omlt

"bare" writes the same numbers of variables, rows and coefficients as the forward block with nothing
around them.  CPU seconds, best of several; the memory is the peak that Python's allocator saw
(tracemalloc).  "compiled" is the time until the solver adapters of lipyomo have the model as
matrices.  OMLT: extra ``[bench]``.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import pyomo.environ as pyo
from pyomo.common.gc_manager import PauseGC
from pyomo.core.expr import LinearExpression

from experiments.problems import gaussian
from lipyomo import Box, Network
from lipyomo.blocks import GradientBlock, LipschitzBlock, ReluNetworkBlock, TangentBlock
from lipyomo.relaxations.linear import LayerBounds, preactivation_bounds
from lipyomo.solvers.compilation import compile_model

Build = Callable[[], Any]


def forward(network: Network, domain: Box, bounds: LayerBounds) -> Any:
    model = pyo.ConcreteModel()
    model.net = ReluNetworkBlock()
    model.net.build_formulation(network, domain=domain, bounds=bounds)
    return model


def gradient(network: Network, domain: Box, bounds: LayerBounds, output: int | None = None) -> Any:
    model = forward(network, domain, bounds)
    model.gradient = GradientBlock()
    model.gradient.build_formulation(model.net, functional=output)
    return model


def tangent(network: Network, domain: Box, bounds: LayerBounds) -> Any:
    model = forward(network, domain, bounds)
    model.tangent = TangentBlock()
    model.tangent.build_formulation(model.net)
    return model


def lipschitz(network: Network, domain: Box, bounds: LayerBounds) -> Any:
    model = pyo.ConcreteModel()
    model.steep = LipschitzBlock()
    model.steep.build_formulation(network, domain=domain, bounds=bounds)
    return model


def bare(network: Network) -> Any:
    """Variables and rows of the forward model, as plainly as Pyomo allows."""
    model = pyo.ConcreteModel()
    with PauseGC():
        model.x = pyo.Var(range(network.input_dim), bounds=(0, 1))
        columns = list(model.x.values())
        for i, layer in enumerate(network.layers):
            last = i == len(network.layers) - 1
            block = pyo.Block()
            model.add_component(f"layer{i}", block)
            block.z = pyo.Var(range(layer.units))
            z = list(block.z.values())
            block.affine = pyo.Constraint(range(layer.units))
            weights, biases = layer.dense_weight.tolist(), layer.bias.tolist()
            for k in range(layer.units):
                row = LinearExpression(
                    constant=0.0,
                    linear_coefs=[*weights[k], -1.0],
                    linear_vars=[*columns, z[k]],
                )
                block.affine[k] = (row, -biases[k])
            if last:
                break
            block.y = pyo.Var(range(layer.units))
            block.a = pyo.Var(range(layer.units), domain=pyo.Binary)
            columns = list(block.y.values())
            block.ties = pyo.Constraint(range(layer.units), range(3))
            for k, (y, a) in enumerate(zip(columns, block.a.values(), strict=True)):
                for side in range(3):
                    row = LinearExpression(
                        constant=0.0, linear_coefs=[1.0, -1.0, 1.0], linear_vars=[y, z[k], a]
                    )
                    block.ties[k, side] = (None, row, 1.0)
    return model


def omlt_forward(network: Network, box: Box) -> Any:
    """The same network by OMLT's big-M formulation."""
    from omlt import OmltBlock
    from omlt.neuralnet import NetworkDefinition, ReluBigMFormulation
    from omlt.neuralnet.layer import DenseLayer, InputLayer

    definition = NetworkDefinition(
        scaled_input_bounds=dict(
            enumerate(zip(box.lower.tolist(), box.upper.tolist(), strict=True))
        )
    )
    before = InputLayer([network.input_dim])
    definition.add_layer(before)
    for i, layer in enumerate(network.layers):
        activation = "linear" if i == len(network.layers) - 1 else "relu"
        dense = DenseLayer(
            [layer.inputs],
            [layer.units],
            activation=activation,
            weights=layer.dense_weight.T,
            biases=layer.bias,
        )
        definition.add_layer(dense)
        definition.add_edge(before, dense)
        before = dense
    model = pyo.ConcreteModel()
    model.net = OmltBlock()
    model.net.build_formulation(ReluBigMFormulation(definition))
    return model


def measured(build: Build, repeats: int) -> tuple[float, float, Any]:
    """Least CPU seconds, peak memory in MB, and the model."""
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        model = build()
        seconds.append(time.process_time() - start)
    tracemalloc.start()
    model = build()
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return min(seconds), peak, model


def main(words: Sequence[str]) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments build", description=__doc__.splitlines()[0] if __doc__ else ""
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[784, 256, 256, 10])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--no-omlt", action="store_true")
    arguments = parser.parse_args(words)
    network = gaussian(arguments.sizes, seed=0)
    domain = Box(0.0, 1.0, network.input_dim)
    bounds = preactivation_bounds(network, domain, relaxation="interval")
    builds: dict[str, Build] = {
        "bare Pyomo, forward": lambda: bare(network),
        "ReluNetworkBlock": lambda: forward(network, domain, bounds),
        "... with GradientBlock": lambda: gradient(network, domain, bounds, 0),
        "... with the whole Jacobian": lambda: gradient(network, domain, bounds),
        "... with TangentBlock": lambda: tangent(network, domain, bounds),
        "LipschitzBlock": lambda: lipschitz(network, domain, bounds),
    }
    if not arguments.no_omlt:
        builds["OMLT big-M, forward"] = lambda: omlt_forward(network, domain)
    print(f"network {'-'.join(map(str, arguments.sizes))}, {bounds.unstable} unstable units\n")
    print("| model | CPU s | peak MB | variables | rows | compiled, CPU s |")
    print("|---|---:|---:|---:|---:|---:|")
    for name, build in builds.items():
        repeats = 1 if name.startswith("OMLT") else arguments.repeats
        seconds, peak, model = measured(build, repeats)
        variables = sum(1 for _ in model.component_data_objects(pyo.Var))
        rows = sum(1 for _ in model.component_data_objects(pyo.Constraint, active=True))
        start = time.process_time()
        compile_model(model)
        passed = time.process_time() - start
        print(
            f"| {name} | {seconds:.3f} | {peak:.0f} | {variables} | {rows} | {passed:.2f} |",
            flush=True,
        )
