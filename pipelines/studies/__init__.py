"""What is run to learn something about methods, not to get detectors."""
