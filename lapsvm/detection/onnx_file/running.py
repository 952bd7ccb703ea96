"""An exported detector, run by ONNX Runtime as its users run it."""

from typing import Any

import numpy as np

from lapsvm.arrays import Array, Float32, Float64
from lapsvm.errors import DataError, OptionError, one_line
from lapsvm.features.extractors.networks import open_runtime
from lapsvm.objectness.good_pictures import distance_of
from lapsvm.pictures.reading import check_pixels

_AS_RECORDED: dict[str, Array] = {
    "windows": np.zeros((0, 4), np.float32),
    "iou_threshold": np.array([np.nan], np.float32),
    "score_threshold": np.array([np.nan], np.float32),
    "probability_threshold": np.array([np.nan], np.float32),
    "max_boxes": np.zeros(1, np.int64),
}
"""What leaves the windows and limits of a file with all inputs as they are."""


class OnnxDetector:
    """The detector in an exported file.

    Parameters
    ----------
    content : bytes
        The file.
    threads : int, default 1

    Attributes
    ----------
    decides, knows_good : bool
        Whether the file decides on pictures, and whether some may be unknown.

    Raises
    ------
    DependencyError
        If ONNX Runtime is not installed.
    DataError
        If ONNX Runtime cannot read the file.
    """

    def __init__(self, content: bytes, threads: int = 1) -> None:
        onnxruntime, options = open_runtime("an exported detector needs ONNX Runtime", "onnx", threads)
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # waiting threads slow others down
        try:
            self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # noqa: BLE001 - its exceptions share no other base
            raise DataError(f"the exported detector cannot be read by ONNX Runtime: {one_line(error)}.") from None
        self._inputs = [inputs.name for inputs in self._session.get_inputs()]
        outputs = [output.name for output in self._session.get_outputs()]
        self.decides, self.knows_good = "decision" in outputs, "heatmap" in outputs

    @property
    def metadata(self) -> dict[str, str]:
        """What the file says of itself."""
        return dict(self._session.get_modelmeta().custom_metadata_map)

    def window_scores(self, pixels: Array, windows: Array) -> Float32:
        """Return the scores (n, k) of windows (n, 4) of a picture, by a file with all inputs."""
        return np.asarray(self.run(["window_scores"], pixels, windows=np.asarray(windows, np.float32))[0])

    def detect(self, pixels: Array, **limits: Any) -> list[tuple[Float64, Float64]]:
        """Return the boxes (m, 4) and scores (m,) of each class, the best first, among the file's own windows.

        `limits` are inputs of a file with all inputs, as in `detector_file`.
        """
        boxes, classes, scores, maps = self.run(["boxes", "classes", "scores", "score_maps"], pixels, **limits)
        masks = [classes == number for number in range(len(maps))]
        return [(boxes[mask].astype(np.float64), scores[mask].astype(np.float64)) for mask in masks]

    def decision(self, pixels: Array, **more: Array) -> int | None:
        """Return the decision on a picture: 0 for ok, k for the k-th class, -1 for unknown. None if the file has none.

        `more` as for `run`.
        """
        return int(self.run(["decision"], pixels, **more)[0][0]) if self.decides else None

    def measures(self, pixels: Array) -> tuple[float, float]:
        """Return the numbers that a file compares with its thresholds: probability, and distance; inf without one."""
        if not self.knows_good:
            return float(self.run(["probability"], pixels)[0][0]), np.inf
        probability, heatmap = self.run(["probability", "heatmap"], pixels)
        return float(probability[0]), distance_of(heatmap)

    def run(self, outputs: list[str], pixels: Array, **more: Array) -> list[Any]:
        """Return some outputs for a picture (h, w, 3), uint8 RGB; `more` are inputs of a file with all inputs."""
        check_pixels(pixels)
        unknown = sorted(more.keys() - set(self._inputs))
        if unknown:
            raise OptionError(f"input {unknown[0]!r} must be one of the file's, {', '.join(self._inputs)}.")
        others = {name: _AS_RECORDED[name] for name in self._inputs[1:]}
        try:
            return list(self._session.run(outputs, {"picture": np.ascontiguousarray(pixels), **others, **more}))
        except Exception as error:  # noqa: BLE001 - its exceptions share no other base
            raise DataError(
                f"the exported detector cannot take a picture of {pixels.shape}: {one_line(error)}."
            ) from None
