"""The scheduler: trains many problems in parallel on shared passes over the windows."""
