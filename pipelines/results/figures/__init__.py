"""The figures of a run: what evaluation.json holds, with intervals and thresholds."""
