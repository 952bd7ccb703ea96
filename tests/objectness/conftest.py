"""Saliency networks so small that their maps are formulas, written as ONNX files."""

import numpy as np
import pytest

from lapsvm.objectness import open_objectness, saliency_installed

from ..twins.networks import onnx_network


def _write_saliency(
    path, weights=((1, 0, 0),), *, bias=0.0, size=("h", "w"), declared=True, outputs=("map",), flat=False, inside=None,
    inputs=1,
):  # fmt: skip
    """Write a network whose map has each pixel's channels times `weights` (channels out, 3) plus `bias`.

    `outputs` names the map and then maps of the opposite sign; `flat` replaces them by their means, `inside` is the
    shape of zeros that are added to the map, and without `declared` the file says nothing of their shapes.
    """
    kernel = np.asarray(weights, np.float32)[:, :, None, None]
    arrays = {"kernel": kernel, "bias": np.full(len(kernel), bias, np.float32)}
    nodes, last = [("Conv", "picture0 kernel bias", "sums", {})], "sums"
    if inside is not None:
        arrays["zeros"] = np.zeros(inside, np.float32)
        nodes.append(("Add", f"{last} zeros", "added", {}))
        last = "added"
    if flat:
        nodes.append(("ReduceMean", last, "mean", {"axes": [2, 3], "keepdims": 0}))
        last = "mean"
    nodes += [("Neg" if place else "Identity", last, name, {}) for place, name in enumerate(outputs)]
    shape = None if not declared else [1, len(kernel)] if flat else [1, len(kernel), *size]
    taken = {f"picture{place}": [1, 3, *size] for place in range(inputs)}
    path.write_bytes(onnx_network(nodes, taken, dict.fromkeys(outputs, shape), arrays))
    return path


@pytest.fixture(scope="session")
def write_saliency():
    """The function that writes a tiny saliency network; skips where onnx or ONNX Runtime is not installed."""
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    return _write_saliency


@pytest.fixture
def path(tmp_path, write_saliency):
    """A network whose map is the red channel, of any size."""
    return write_saliency(tmp_path / "net.onnx")


@pytest.fixture(scope="session")
def u2netp():
    """U2-Net's small version; skips where the package with it is not installed."""
    if not saliency_installed():
        pytest.skip("the package with u2netp is not installed")
    return open_objectness("u2netp")
