"""Training of the baselines: MI-SVM class by class, heads for all classes at once."""
