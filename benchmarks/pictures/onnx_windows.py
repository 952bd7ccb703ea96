"""What the windows inside an exported ONNX file are worth beside those of ``predict``: AP of finished runs' detectors.

    python benchmarks/pictures/onnx_windows.py RUN=VOC ... [--pictures 70] [--side 128] [--ks 80,160,320,640]

A run's detectors score windows of pictures of a VOC folder's trainval that show an object and had no part in training
(all that show one where the run was trained on the folder itself), evenly spread. Side and k are those of
`lapsvm.detection.onnx_file.grouping`; its large windows are left out. AP is the mean over the classes, by area.
"""

import argparse
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from lapsvm.pipelines.results.held_out import read_held_out
from lapsvm.pipelines.run.folder import RunFolder
from onnx_file import open_file, reports, spread

from lapsvm.arrays import Array
from lapsvm.boxes import iou
from lapsvm.catalog import Pixels, open_dataset
from lapsvm.detection import Predictor
from lapsvm.detection.onnx_file import grouping
from lapsvm.detection.onnx_file.assembly import OPSET
from lapsvm.detection.onnx_file.graph import Graph
from lapsvm.windows.proposals import picture_windows

MAX_AREA = 0.9
Windows = Callable[[Pixels], Array]


def main() -> None:
    """Print a row for the windows of ``predict`` and one for those of the graph."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", metavar="RUN=VOC")
    parser.add_argument("--pictures", type=int, default=70)
    parser.add_argument("--side", type=int, default=grouping.SIDE)
    parser.add_argument("--ks", type=lambda text: tuple(map(int, text.split(","))), default=grouping.KS)
    given = parser.parse_args()
    grouping.SIDE, grouping.KS = given.side, given.ks
    session = graph_session()
    print("| run | windows | number | MABO | AP area |\n|---|---|---|---|---|")
    for text in given.runs:
        run, root = map(Path, text.split("="))
        predictor = Predictor.open(run, device="cpu", max_detections=100)
        data, records = chosen(predictor, run, root, given.pictures)
        sources: dict[str, Windows] = {
            "predict": partial(picture_windows, settings=predictor.windows, seed=predictor.seed),
            f"graph, {given.side} pixels, k {', '.join(map(str, given.ks))}": partial(graph_windows, session),
        }
        for name, windows in sources.items():
            print(f"| {run} | {name} | {' | '.join(row(predictor, data.ground_truth('trainval'), records, windows))} |")


def graph_session() -> Any:
    """Return a session, of one thread, of a graph that gives a picture's windows as shares of it."""
    graph = Graph(onnx)
    picture = graph.input("picture", np.uint8, ["height", "width", 3])
    found = grouping.grouped_windows(graph, picture.transposed(2, 0, 1).cast(np.float32), MAX_AREA)
    output = onnx.helper.make_tensor_value_info(found.name, onnx.TensorProto.DOUBLE, ["windows", 4])
    made = onnx.helper.make_graph(graph.nodes, "windows", graph.inputs, [output], graph.initializers)
    model = onnx.helper.make_model(made, opset_imports=[onnx.helper.make_opsetid("", OPSET)], ir_version=8)
    return open_file(model.SerializeToString())


def graph_windows(session: Any, pixels: Pixels) -> Array:
    """Return the windows of a picture; the whole one if there are none."""
    height, width = pixels.shape[:2]
    (shares,) = session.run(None, {"picture": np.ascontiguousarray(pixels)})
    found = shares if len(shares) else np.array([[0.0, 0.0, 1.0, 1.0]])
    return np.asarray(found * [width, height, width, height], dtype=np.float32)


def chosen(predictor: Predictor, run: Path, root: Path, count: int) -> tuple[Any, list[Any]]:
    """Return the data of a folder, and the records of evenly spread pictures that show an object."""
    classes = [detector.class_name for detector in predictor.detectors]
    data = open_dataset("voc", root, classes=classes)
    trained = {key for name in classes for key in read_held_out(RunFolder(run), name).ids}
    records = data.records("trainval")
    unseen = [record for record in records if record.id not in trained]
    truth = data.ground_truth("trainval")
    shown = [one for one in unseen or records if any(len(truth[name][one.id].boxes) for name in classes)]
    return data, spread(shown, count)


def row(predictor: Predictor, truth: Any, records: list[Any], windows: Windows) -> list[str]:
    """Return the mean number of windows, their MABO, and the AP of the detections among them."""
    classes = [detector.class_name for detector in predictor.detectors]
    found, counts, overlaps = [], [], []
    for record in records:
        pixels = record.pixels()
        boxes = np.asarray(windows(pixels), dtype=np.float32)
        counts.append(len(boxes))
        found.append([(one.boxes, one.scores) for one in predictor.among(pixels, boxes).values()])
        objects = np.concatenate([truth[name][record.id].boxes for name in classes])
        overlaps += list(iou(objects, boxes.astype(float)).max(axis=1))
    report = reports({"": found}, classes, [record.id for record in records], truth)[""]
    return [f"{np.mean(counts):.0f}", f"{np.mean(overlaps):.3f}", f"{report.mean_ap_area:.3f}"]


if __name__ == "__main__":
    main()
