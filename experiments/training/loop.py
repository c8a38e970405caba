"""One training loop for every PyTorch module: Adam, weight penalties, FGSM examples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from lipyomo.base.system.extras import require


def import_torch() -> Any:
    """Import PyTorch, or say how to install it.

    Returns
    -------
    module
        The package ``torch``.

    Raises
    ------
    MissingExtra
        If PyTorch is not installed.
    """
    return require("torch", "Training networks")


@contextmanager
def _one_thread(torch: Any) -> Iterator[None]:
    """Train on one thread: faster for networks this small, and the sums keep their order."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def fit(
    module: Any,
    samples: Any,
    targets: Any,
    loss: Callable[[Any, Any], Any],
    generator: Any,
    *,
    epochs: int,
    lr: float = 1e-3,
    l1: float = 0.0,
    l2: float = 0.0,
    fgsm: float = 0.0,
    batch_size: int = 128,
    cosine: bool = False,
    after_epoch: Callable[[int], None] | None = None,
) -> None:
    """Train any PyTorch module in place with Adam, on one thread.

    Parameters
    ----------
    module : torch.nn.Module
        What to train.
    samples, targets : torch.Tensor
        The data; the first axis counts samples.
    loss : callable
        ``loss(outputs, targets)``, a scalar tensor.
    generator : torch.Generator
        Source of the shuffling.
    epochs : int
        Passes over the data.
    lr : float, default 1e-3
        Learning rate of Adam.
    l1, l2, fgsm : float, default 0
        Regularisers, as in `train_classifier`.
    batch_size : int, default 128
        Samples per step.
    cosine : bool, default False
        Let the learning rate fall to zero along half a cosine.
    after_epoch : callable, optional
        Called with the number of finished epochs: with 0 before the first, then after each.

    Raises
    ------
    MissingExtra
        If PyTorch is not installed.
    """
    torch = import_torch()
    optimiser = torch.optim.Adam(module.parameters(), lr=lr, fused=True)
    schedule = None
    if cosine:
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, max(epochs, 1))
    weights = [p for p in module.parameters() if p.dim() > 1]
    report = after_epoch or (lambda epoch: None)
    with _one_thread(torch):
        report(0)
        for epoch in range(1, epochs + 1):
            for batch in torch.randperm(len(samples), generator=generator).split(batch_size):
                inputs, wanted = samples[batch], targets[batch]
                if fgsm > 0.0:
                    inputs = _adversarial(torch, module, inputs, wanted, loss, fgsm)
                value = loss(module(inputs), wanted)
                if l1 > 0.0:
                    value = value + l1 * sum(w.abs().sum() for w in weights)
                if l2 > 0.0:
                    value = value + l2 * sum(w.square().sum() for w in weights)
                optimiser.zero_grad()
                value.backward()
                optimiser.step()
            if schedule is not None:
                schedule.step()
            report(epoch)


def _adversarial(
    torch: Any, module: Any, inputs: Any, wanted: Any, loss: Callable[[Any, Any], Any], step: float
) -> Any:
    """Fast gradient sign examples: one step up the loss in every coordinate."""
    probe = inputs.clone().requires_grad_(True)
    (gradient,) = torch.autograd.grad(loss(module(probe), wanted), probe)
    return inputs + step * gradient.sign()
