"""Other thresholds in a file that decides: its two constants, and its metadata."""

from collections.abc import Mapping

import numpy as np

from lapsvm.detection.onnx_file.assembly import load_onnx
from lapsvm.detection.onnx_file.deciding import DISTANCE, PROBABILITY


def with_thresholds(content: bytes, probability: float, distance: float, metadata: Mapping[str, str]) -> bytes:
    """Return an exported file with other thresholds and metadata.

    Parameters
    ----------
    content : bytes
        A file of `detector_file` that decides.
    probability : float
    distance : float
        Without effect in a file that knows no good pictures.
    metadata : mapping of str to str

    Raises
    ------
    DependencyError
        If the package onnx is not installed.
    """
    onnx = load_onnx()
    model = onnx.load_model_from_string(content)
    values = {PROBABILITY: probability, DISTANCE: distance}
    for entry in model.graph.initializer:
        value = values.get(entry.name)
        if value is not None:
            entry.CopyFrom(onnx.numpy_helper.from_array(np.asarray(value, np.float64), entry.name))
    onnx.helper.set_model_props(model, dict(metadata))
    serialised: bytes = model.SerializeToString(deterministic=True)
    return serialised
