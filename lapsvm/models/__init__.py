"""Learners with the scikit-learn interface."""
