"""Pictures as bags of windows: the best window per bag, for many weight vectors at once."""
