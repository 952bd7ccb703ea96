"""What `lapsvm export` writes: annotations of other programs, and the detector itself as one ONNX file."""
