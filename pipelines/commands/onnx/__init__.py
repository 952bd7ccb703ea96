"""Export of a run as one ONNX file, and its comparison with the run."""
