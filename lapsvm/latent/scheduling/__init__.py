"""Many problems side by side on shared passes over the windows."""
