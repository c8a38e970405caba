"""Data and training for the papers' experiments; the rest of the package does without it.

`leaders` and `initial` need NumPy only; `train`, `residual` and `loop` need PyTorch, the extra
``[torch]``, and import it when they are called.
"""

from experiments.training.initial import he_network
from experiments.training.leaders import LeadersData, leaders_dataset
from experiments.training.loop import fit
from experiments.training.residual import train_residual
from experiments.training.train import TrainedNetwork, train_classifier, train_regressor

__all__ = [
    "LeadersData",
    "TrainedNetwork",
    "fit",
    "he_network",
    "leaders_dataset",
    "train_classifier",
    "train_regressor",
    "train_residual",
]
