"""Networks in and out: ONNX models, PyTorch modules, scikit-learn estimators."""
