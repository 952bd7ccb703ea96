"""Training with chosen constants: tasks, starts, model selection, progress."""
