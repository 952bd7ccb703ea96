"""From scores to decisions on whole pictures: probabilities, thresholds, alarms, and which boxes are shown.

`lapsvm.detection` exports the names that users need.
"""
