"""Stage 4: every window of every picture is scored, overlaps are suppressed, result files are written."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from lapsvm.arrays import Array, Float64
from lapsvm.detection import Detector, demoted, detect, score_many, voted
from lapsvm.errors import StageError
from lapsvm.evaluation import Detections, result_name, write_results
from lapsvm.features import Shard, ShardSet, open_shards
from lapsvm.files import temporary_name

from .detection_record import outdated_models
from .kept_windows import weights_hash
from .run_folder import COMPETITION, STAMP, RunFolder, Timing, measured
from .settings import DetectSettings
from .stages import Context

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


@dataclass(frozen=True)
class FoundSet:
    """What was found in one set: result files under temporary names, and how long it took."""

    files: dict[Path, Path]
    timing: Timing


def detect_sets(context: Context) -> None:
    """Write the result files of every set of the run; none is replaced before all sets are scored.

    The models' records of how they detect follow the settings (see `detection_record`).
    """
    detectors = load_detectors(context, "detect")
    shards = {name: open_shards(context.run.shards(name)) for name in context.data.records}
    outdated = outdated_models(context.run, context.data.classes, context.settings.detect)
    context.run.files.check(outdated)
    found: dict[str, FoundSet] = {}
    try:
        for name, own in shards.items():
            if context.redo or not is_up_to_date(context, name, own):
                found[name] = _detect_set(context, name, own, detectors)
        context.run.files.claim(outdated)
        for path, detector in outdated.items():
            detector.save(path)
        for name, one in found.items():
            _put_in_place(context, name, shards[name], one)
    finally:
        for one in found.values():
            remove_all(one.files)
    for name in shards:
        if name not in found and f"detect {name}" not in context.run.timings():
            context.run.save_timing(f"detect {name}", Timing(), context.reporter.say)
    if context.settings != context.run.settings():
        context.save_settings()


def _detect_set(context: Context, set_name: str, shards: ShardSet, detectors: Sequence[Detector]) -> FoundSet:
    """Write the results of all classes of a set under temporary names."""
    with measured() as timing:
        names = [detector.class_name for detector in detectors]
        found = detect_shards(context, shards, names, lambda shard: score_many(detectors, shard.features), set_name)
        timing.counts |= {"pictures": shards.n_images, "windows": shards.n_windows}
        return FoundSet(write_temporarily(context.run, set_name, found), timing)


def _put_in_place(context: Context, set_name: str, shards: ShardSet, found: FoundSet) -> None:
    """Give the results of a set their names, and say what they were made from."""
    put_in_place(context.run, set_name, found.files)
    stamp = _with_results(_stamp(context, shards), list(found.files.values()))
    context.run.write(context.run.detections(set_name) / STAMP, stamp)
    context.run.save_timing(f"detect {set_name}", found.timing, context.reporter.say)


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


def is_up_to_date(context: Context, set_name: str, shards: ShardSet | None = None) -> bool:
    """Tell whether a set's result files come from the run's models, shards and settings as they are now."""
    own = open_shards(context.run.shards(set_name)) if shards is None else shards
    return _is_current(context, set_name, _stamp(context, own))


def _stamp(context: Context, shards: ShardSet) -> dict[str, Any]:
    """Return what decides the detections: the models' weights, the shards' content, and the settings."""
    models = {name: weights_hash(Detector.load(context.run.model(name))) for name in context.data.classes}
    checksums = [header.checksum for header in shards.headers]
    return {"models": models, "shards": checksums, "settings": asdict(context.settings.detect)}


def _with_results(stamp: Mapping[str, Any], files: Sequence[Path]) -> str:
    """Return the content of ``detections.json``: what decided the detections, and the hashes of the result files."""
    results = {file.name: _content_hash(file) for file in files}
    return json.dumps({**stamp, "results": results}, sort_keys=True, indent=1) + "\n"


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
    return there and path.read_bytes() == _with_results(stamp, files).encode()


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
