"""Import and export of networks: ONNX models, PyTorch modules, scikit-learn estimators."""
