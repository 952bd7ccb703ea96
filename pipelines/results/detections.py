"""Stage 4: every window of every picture is scored, overlaps are suppressed, result files are written."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from lapsvm.arrays import Array, Float64
from lapsvm.detection import Detector, demoted, detect, voted
from lapsvm.evaluation import Detections, result_name, write_results
from lapsvm.features import Shard, ShardSet, open_shards
from lapsvm.files import temporary_name

from ..fitting.window_subset import weights_hash
from ..run.context import RunContext
from ..run.folder import COMPETITION, STAMP, RunFolder
from ..run.settings import DetectSettings

PLACE = 1 / 16  # voted boxes are written to a sixteenth of a pixel: short and the same on every machine
Found = tuple[str, Array, Float64]


def write_temporarily(run: RunFolder, set_name: str, found: Mapping[str, Sequence[Found]]) -> dict[Path, Path]:
    """Write the result files of a set under temporary names; return temporary name -> name."""
    run.files.check(run.detection_files(set_name, found))
    run.detections(set_name).mkdir(parents=True, exist_ok=True)
    files: dict[Path, Path] = {}
    try:
        for images, path in zip(found.values(), run.detection_files(set_name, found), strict=False):
            temporary = temporary_name(path)
            files[temporary] = path
            write_results(temporary, Detections.from_images(images))
    except BaseException:
        remove_all(files)
        raise
    return files


def put_in_place(run: RunFolder, set_name: str, files: Mapping[Path, Path]) -> None:
    """Give result files their names, and remove the results of other classes that this program wrote before."""
    run.files.claim(files.values())
    run.remove(path for path in run.detections(set_name).glob("*.txt") if path not in files.values())
    for temporary, path in files.items():
        temporary.replace(path)


def remove_all(files: Iterable[Path]) -> None:
    """Remove the temporary files that are still there, and their folders if these are empty then."""
    for path in files:
        path.unlink(missing_ok=True)
        with suppress(OSError):  # not empty
            path.parent.rmdir()


def is_up_to_date(context: RunContext, set_name: str, shards: ShardSet | None = None) -> bool:
    """Tell whether a set's result files come from the run's models, shards and settings as they are now."""
    own = open_shards(context.run.shards(set_name)) if shards is None else shards
    return _is_current(context, set_name, detection_stamp(context, own))


def detection_stamp(context: RunContext, shards: ShardSet) -> dict[str, Any]:
    """Return what decides the detections: the models' weights, the shards' content, and the settings."""
    models = {name: weights_hash(Detector.load(context.run.model(name))) for name in context.data.classes}
    checksums = [header.checksum for header in shards.headers]
    return {"models": models, "shards": checksums, "settings": asdict(context.settings.detect)}


def stamp_with_results(stamp: Mapping[str, Any], files: Sequence[Path]) -> str:
    """Return the content of ``detections.json``: what decided the detections, and the hashes of the result files."""
    results = {file.name: _content_hash(file) for file in files}
    return json.dumps({**stamp, "results": results}, sort_keys=True, indent=1) + "\n"


def _content_hash(path: Path) -> str:
    """Return the hash of a file."""
    return blake2b(path.read_bytes(), digest_size=16).hexdigest()


def _result_files(context: RunContext, set_name: str) -> list[Path]:
    """Return the result file of every class."""
    folder = context.run.detections(set_name)
    return [folder / result_name(set_name, name, COMPETITION) for name in context.data.classes]


def _is_current(context: RunContext, set_name: str, stamp: Mapping[str, Any]) -> bool:
    """Tell whether the result files are there as they were written, and were made from the same."""
    files, path = _result_files(context, set_name), context.run.detections(set_name) / STAMP
    there = path.is_file() and all(file.is_file() for file in files)
    return there and path.read_bytes() == stamp_with_results(stamp, files).encode()


def detect_shards(
    context: RunContext, shards: ShardSet, names: Sequence[str], score: Callable[[Shard], Float64], set_name: str
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
