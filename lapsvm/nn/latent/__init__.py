"""Latent learning under a rank loss in torch: a head over bags of windows, and fine-tuning of what lies below it."""
