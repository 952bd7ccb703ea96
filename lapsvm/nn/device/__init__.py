"""Rank losses of tensors on a GPU, solved on their own device: the processor never waits for a value.

`operator.py` puts the parts together, and `ways.py` chooses between the two ways. By torch's operations: `targets.py`
reads labels and masks, `layout.py` sorts, `levels.py` finds the best rank of each negative, and `bounds.py` makes
values and gradients of the ranks. By Triton: `triton_rows.py` launches the kernels of `kernels.py`. `losses.py` has the
losses' forms. Shapes and types are checked as for tensors on the processor. Faults that only a tensor's value shows are
not raised: a ranking with a score or a label that cannot be used has the value NaN and a gradient of NaN.
"""
