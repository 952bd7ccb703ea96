"""Rank losses of tensors on a GPU, in torch operations on their own device: the processor never waits for a value.

`operator.py` puts the parts together: `targets.py` reads labels and masks, `layout.py` sorts, `levels.py` finds the
best rank of each negative, `bounds.py` makes values and gradients of the ranks, and `losses.py` has the losses' forms.
Shapes and types are checked as for tensors on the processor. What would need a value of a tensor is not raised: a
ranking with a score or a label that cannot be used has the value NaN and a gradient of NaN.
"""
