"""Stage 4: every window of every picture is scored, overlaps are suppressed, result files are written."""

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from lapsvm.arrays import Array, Float64
from lapsvm.detection import Detector, demoted, detect, score_many, voted
from lapsvm.errors import StageError
from lapsvm.evaluation import Detections, result_name, write_results
from lapsvm.features import Shard, ShardSet, open_shards
from lapsvm.files import remove_stale, write_atomically

from .settings import DetectSettings
from .stages import Context

COMPETITION = "comp3"  # the devkit's competition 3: trained on what the challenge provides
STAMP = "detections.json"
PLACE = 1 / 16  # voted boxes are written to a sixteenth of a pixel: short and the same on every machine
Found = tuple[str, Array, Float64]


def load_detectors(context: Context, stage: str, file_of: Callable[[str], Path] | None = None) -> list[Detector]:
    """Return one detector per class of the run, by default the final one; StageError if one is not there yet."""
    detectors = []
    for name in context.data.classes:
        path = (file_of or context.run.model)(name)
        if not path.is_file():
            maker = "refine" if context.settings.refine.rounds and file_of is None else "train"
            raise StageError(f"{stage} needs a model of {name!r}, but {path} is not there; run lapsvm {maker} first.")
        detectors.append(Detector.load(path))
    return detectors


def detect_sets(context: Context) -> None:
    """Write the result files of every set of the run."""
    detectors = load_detectors(context, "detect")
    for set_name in context.data.records:
        with context.timed(f"detect {set_name}") as counts:
            _detect_set(context, set_name, detectors, counts)
    if context.settings != context.run.settings():
        context.save_settings()


def _detect_set(context: Context, set_name: str, detectors: Sequence[Detector], counts: dict[str, Any]) -> None:
    """Write ``comp3_det_<set>_<class>.txt`` for every class, unless they are there and up to date."""
    shards = open_shards(context.run.shards(set_name))
    folder = context.run.detections(set_name)
    stamp = _stamp(context, shards)
    if not context.redo and _is_current(context, set_name, stamp):
        counts["nothing_to_do"] = True
        return
    names = [detector.class_name for detector in detectors]
    found = detect_shards(context, shards, names, lambda shard: score_many(detectors, shard.features), set_name)
    counts |= {"pictures": shards.n_images, "windows": shards.n_windows}
    write_found(folder, set_name, found)
    write_atomically(folder / STAMP, _with_results(stamp, _result_files(context, set_name)))


def write_found(folder: Path, set_name: str, found: Mapping[str, Sequence[Found]]) -> None:
    """Write the result files of a set; others in the folder are removed."""
    folder.mkdir(parents=True, exist_ok=True)
    remove_stale(folder)
    for stranger in folder.glob("*.txt"):
        stranger.unlink()
    for name, images in found.items():
        write_results(folder / result_name(set_name, name, COMPETITION), Detections.from_images(images))


def is_up_to_date(context: Context, set_name: str) -> bool:
    """Tell whether a set's result files come from the run's models, shards and settings as they are now."""
    return _is_current(context, set_name, _stamp(context, open_shards(context.run.shards(set_name))))


def _stamp(context: Context, shards: ShardSet) -> dict[str, Any]:
    """Return what decides the detections: the models' and shards' content, and the settings."""
    models = {name: _content_hash(context.run.model(name)) for name in context.data.classes}
    checksums = [header.checksum for header in shards.headers]
    return {"models": models, "shards": checksums, "settings": asdict(context.settings.detect)}


def _with_results(stamp: Mapping[str, Any], files: Sequence[Path]) -> bytes:
    """Return the content of ``detections.json``: what decided the detections, and the hashes of the result files."""
    results = {file.name: _content_hash(file) for file in files}
    return (json.dumps({**stamp, "results": results}, sort_keys=True, indent=1) + "\n").encode()


def _content_hash(path: Path) -> str:
    """Return the hash of a file."""
    return blake2b(path.read_bytes(), digest_size=16).hexdigest()


def _result_files(context: Context, set_name: str) -> list[Path]:
    """Return the result file of every class."""
    folder = context.run.detections(set_name)
    return [folder / result_name(set_name, name, COMPETITION) for name in context.data.classes]


def _is_current(context: Context, set_name: str, stamp: Mapping[str, Any]) -> bool:
    """Tell whether the result files are there as they were written, and were made from the same."""
    files, path = _result_files(context, set_name), context.run.detections(set_name) / STAMP
    there = path.is_file() and all(file.is_file() for file in files)
    return there and path.read_bytes() == _with_results(stamp, files)


def detect_shards(
    context: Context, shards: ShardSet, names: Sequence[str], score: Callable[[Shard], Float64], set_name: str
) -> dict[str, list[Found]]:
    """Return class -> (picture, boxes, scores) over all shards, of which `score` gives (windows, classes)."""
    found: dict[str, list[Found]] = {name: [] for name in names}
    with (
        context.reporter.bar(f"detect {set_name}", shards.n_images, "pictures") as bar,
        ThreadPoolExecutor(context.threads) as pool,
    ):
        for index in range(len(shards)):
            shard = shards.read(index, verify=True)
            scores = score(shard)
            for column, name in enumerate(names):
                found[name] += _detect_class(shard, scores[:, column], context.settings.detect, pool)
            bar.step(len(shard.image_ids), windows=len(shard.boxes))
    return found


def detect_windows(scores: Float64, boxes: Array, settings: DetectSettings) -> tuple[Float64, Float64]:
    """Return the detections of one class in one picture, (k, 4) and (k,), from all its windows."""
    lowered = demoted(scores, settings.demotion)
    found, values = detect(lowered, boxes, settings.nms_threshold, max_after=settings.max_detections)
    if settings.vote:
        moved = voted(found, boxes, scores, settings.vote, settings.vote_near)
        found = np.round(moved / PLACE) * PLACE
    return found, values


def _detect_class(shard: Shard, scores: Float64, settings: DetectSettings, pool: ThreadPoolExecutor) -> list[Found]:
    """Return one class's detections in the pictures of one shard."""

    def one(index: int) -> Found:
        rows = slice(shard.offsets[index], shard.offsets[index + 1])
        return shard.image_ids[index], *detect_windows(scores[rows], shard.boxes[rows], settings)

    return list(pool.map(one, range(len(shard.image_ids))))
