"""An exported file in int8 beside the one in float32: AP, time and size of both."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

from lapsvm.arrays import Array
from lapsvm.catalog import ImageRecord, Pixels
from lapsvm.detection.onnx_file import OnnxDetector

from ...annotations.known_boxes import AnnotatedBoxes
from .onnx_comparison import Compared, Found, agreement, average_precisions, other_decisions

FLOAT32, INT8 = "float32", "int8"
CALIBRATED = 12  # pictures on which the ranges between layers are measured
COMPARED = 120  # pictures on which both files are compared
LOST = 0.01  # VOC AP below that of float32 from which int8 is advised against
ENOUGH = 0.9  # share of pictures with both best boxes in the same place, where no boxes are known
_ADVICE = "export without --precision int8"


@dataclass
class Timed:
    """A detector and the seconds it took for each picture.

    Attributes
    ----------
    detector : OnnxDetector
    seconds : list of float
    """

    detector: OnnxDetector
    seconds: list[float] = field(default_factory=list)

    def __call__(self, pixels: Array) -> Found:
        """Return the detections of a picture."""
        start = perf_counter()
        detections = self.detector.detect(pixels)
        self.seconds.append(perf_counter() - start)
        return detections

    @property
    def milliseconds(self) -> float:
        """The median of a picture."""
        return float(np.median(self.seconds)) * 1000


def compare_precisions(
    files: tuple[bytes, bytes], pictures: Iterable[tuple[ImageRecord, Pixels]], step: Callable[[], None]
) -> tuple[list[Compared], tuple[Timed, Timed]]:
    """Return the detections of a file in float32 and one in int8 in pictures, and both with their times."""
    before, after = (Timed(OnnxDetector(content)) for content in files)
    compared = []
    for record, pixels in pictures:
        decisions = before.detector.decision(pixels), after.detector.decision(pixels)
        decided = decisions if before.detector.decides else None
        compared.append(Compared(record, before(pixels), after(pixels), float("nan"), decided))
        step()
    return compared, (before, after)


def precision_figures(
    compared: Sequence[Compared],
    timed: tuple[Timed, Timed],
    sizes: tuple[int, int],
    classes: Sequence[str],
    known: AnnotatedBoxes | None,
) -> dict[str, dict[str, float]]:
    """Return name of a figure -> {"float32": value, "int8": value}, and how many best boxes stay in their places.

    ``milliseconds`` a picture by one thread, ``megabytes``, and ``voc_ap`` where boxes are known; elsewhere
    ``same_boxes``, the share of pictures of int8 alone. ``other_decisions`` is the share on which it decides otherwise.
    """
    pairs: dict[str, Sequence[float]] = {
        "milliseconds": [detector.milliseconds for detector in timed],
        "megabytes": [size / 1e6 for size in sizes],
    }
    precisions = None if known is None else average_precisions(compared, classes, known)
    if precisions is not None:
        pairs["voc_ap"] = precisions
    figures = {name: dict(zip((FLOAT32, INT8), pair, strict=True)) for name, pair in pairs.items()}
    others = other_decisions(compared)
    if others is not None:
        figures["other_decisions"] = {INT8: others / len(compared)}
    agreeing = None if precisions is not None else agreement(compared, classes)
    return figures if agreeing is None else figures | {"same_boxes": {INT8: agreeing}}


def precision_lines(figures: Mapping[str, Mapping[str, float]], n_pictures: int) -> Iterator[str]:
    """Yield the cost and the gain of int8, and advice where the cost is too high."""
    time, size = figures["milliseconds"], figures["megabytes"]
    yield (
        f"int8: {time[INT8]:.0f} ms a picture beside {time[FLOAT32]:.0f} of float32, by one thread; "
        f"{size[INT8]:.1f} MB beside {size[FLOAT32]:.1f}"
    )
    if "voc_ap" in figures:
        ap = figures["voc_ap"]
        line = f"int8: VOC AP {ap[INT8]:.3f} beside {ap[FLOAT32]:.3f} of float32 in {n_pictures} pictures"
        yield line + (f"; {_ADVICE}" if ap[INT8] < ap[FLOAT32] - LOST else "")
    if "same_boxes" in figures:
        same = figures["same_boxes"][INT8]
        line = f"int8: the best boxes differ from those of float32 in {1 - same:.0%} of the pictures"
        yield line + (f"; {_ADVICE}" if same < ENOUGH else "")
    if "other_decisions" in figures:
        yield f"int8: decides otherwise than float32 on {figures['other_decisions'][INT8]:.0%} of the pictures"
