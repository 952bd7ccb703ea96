"""What verdicts of a person do to training: labels, known boxes, and where refinement begins."""
