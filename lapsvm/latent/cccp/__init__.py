"""The concave-convex procedure: problems, imputation, and their training."""
