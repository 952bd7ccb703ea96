"""Loss-augmented inference for rank losses, and the metrics they optimise."""
