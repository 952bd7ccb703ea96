"""Latent variables: initialisation, imputation and the concave-convex procedure."""
