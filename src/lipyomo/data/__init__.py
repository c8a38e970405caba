"""The network of ``lipyomo demo``, a copy of ``models/iris.onnx``."""
