"""The project's own model files, run by onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime

FOLDER = Path(__file__).resolve().parents[1] / "models"


def run(name: str, inputs: np.ndarray) -> np.ndarray:
    """Outputs (n, m) of a model at inputs (n, d)."""
    session = onnxruntime.InferenceSession(FOLDER / name, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: inputs.astype(np.float32)})[0]
