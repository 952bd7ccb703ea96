"""Stage 3: every window of every picture is scored, overlaps are suppressed, result files are written."""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from pathlib import Path

import numpy as np

from lapsvm.arrays import Array, Float64
from lapsvm.detection import Detector, detect, score_many
from lapsvm.errors import StageError
from lapsvm.evaluation import Detections, write_results
from lapsvm.features import Shard, read_shard, shard_paths
from lapsvm.files import write_atomically

from .progress import Reporter
from .run_folder import RunFolder
from .settings import DetectSettings

CHALLENGE = "comp3"  # the devkit's competition 3: trained on what the challenge provides
STAMP = "detections.json"


class ClassDetections:
    """Collects the detections of one class, picture after picture."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.scores: list[Float64] = []
        self.boxes: list[Array] = []

    def add(self, image_id: str, boxes: Array, scores: Float64) -> None:
        """Add what was found in one picture."""
        self.ids += [image_id] * len(scores)
        self.boxes.append(boxes)
        self.scores.append(scores)

    def detections(self) -> Detections:
        """Return all of them as one value."""
        if not self.ids:
            return Detections((), np.empty(0), np.empty((0, 4)))
        return Detections(
            tuple(self.ids), np.concatenate(self.scores), np.concatenate(self.boxes).astype(np.float64)
        )


def load_detectors(run: RunFolder, stage: str) -> list[Detector]:
    """Return the run's detectors in order of their class names; StageError if there are none."""
    paths = sorted(run.models.glob("*.safetensors"))
    if not paths:
        raise StageError(f"{stage} needs trained models, but {run.models} holds none; run lapsvm train first.")
    return [Detector.load(path) for path in paths]


def detect_set(
    run: RunFolder, set_name: str, detectors: Sequence[Detector], settings: DetectSettings, threads: int,
    reporter: Reporter, redo: bool = False,
) -> None:  # fmt: skip
    """Write ``comp3_det_<set>_<class>.txt`` for every class, unless they are there and up to date."""
    folder = run.detections(set_name)
    paths = shard_paths(run.shards(set_name))
    stamp = _stamp(run, paths, settings)
    with run.timed(f"detect {set_name}") as counts:
        if not redo and _is_current(folder, stamp):
            counts["nothing_to_do"] = True
            return
        found = _detect_shards(paths, detectors, settings, threads, reporter, set_name)
        folder.mkdir(parents=True, exist_ok=True)
        for name, collected in found.items():
            write_results(folder / f"{CHALLENGE}_det_{set_name}_{name}.txt", collected.detections())
        write_atomically(folder / STAMP, stamp.encode())


def _stamp(run: RunFolder, shards: Sequence[Path], settings: DetectSettings) -> str:
    """Return what decides the detections: the models' bytes, the shards' sizes and names, the settings."""
    models = {path.stem: blake2b(path.read_bytes(), digest_size=16).hexdigest() for path in run.models.glob("*.safetensors")}
    sizes = {path.name: path.stat().st_size for path in shards}
    values = {"nms_threshold": settings.nms_threshold, "max_detections": settings.max_detections}
    return json.dumps({"models": models, "shards": sizes, "settings": values}, sort_keys=True, indent=1) + "\n"


def _is_current(folder: Path, stamp: str) -> bool:
    """Tell whether the result files were made from the same."""
    path = folder / STAMP
    return path.is_file() and path.read_text(encoding="utf-8") == stamp


def _detect_shards(
    paths: Sequence[Path], detectors: Sequence[Detector], settings: DetectSettings, threads: int, reporter: Reporter,
    set_name: str,
) -> dict[str, ClassDetections]:  # fmt: skip
    """Return class -> detections over all shards."""
    found = {detector.class_name: ClassDetections() for detector in detectors}
    with reporter.bar(f"detect {set_name}", len(paths)) as bar, ThreadPoolExecutor(threads) as pool:
        for path in paths:
            shard = read_shard(path)
            scores = score_many(detectors, shard.features)
            for column, detector in enumerate(detectors):
                _detect_class(shard, scores[:, column], settings, pool, found[detector.class_name])
            bar.step()
    return found


def _detect_class(
    shard: Shard, scores: Float64, settings: DetectSettings, pool: ThreadPoolExecutor, found: ClassDetections
) -> None:
    """Add one class's detections in the pictures of one shard."""

    def one(index: int) -> tuple[Array, Float64]:
        rows = slice(shard.offsets[index], shard.offsets[index + 1])
        return detect(scores[rows], shard.boxes[rows], settings.nms_threshold, max_after=settings.max_detections)

    for image_id, (boxes, kept) in zip(shard.image_ids, pool.map(one, range(len(shard.image_ids))), strict=True):
        found.add(image_id, boxes, kept)
