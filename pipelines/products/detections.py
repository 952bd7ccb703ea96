"""Detection: score every window, suppress overlaps, write result files."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

from lapsvm.arrays import Array, Float64
from lapsvm.blas import one_blas_thread
from lapsvm.catalog import Pixels
from lapsvm.detection.groups import WindowPrior
from lapsvm.detection.picture_scores import detect_windows
from lapsvm.evaluation import Detections, read_results, write_results
from lapsvm.features import Shard, ShardSet
from lapsvm.files import SMALL_FILE, make_folder, read_regular, temporary_name
from lapsvm.settings import DetectSettings

from ..context import StoredRun, Workspace
from ..run.checked_files import file_hash, read_json
from ..run.folder import STAMP, RunFolder
from ..shards.prefetch import prefetched
from .models import model_hashes, of_model, stored_detector, trained_classes
from .product import Product, unmet

ImageDetections = tuple[str, Array, Float64]  # picture, boxes, scores


def write_temporary_results(
    run: RunFolder, set_name: str, detections: Mapping[str, Sequence[ImageDetections]]
) -> dict[Path, Path]:
    """Write the result files of a set under temporary names, and return temporary name -> final name."""
    run.files.check(run.detection_files(set_name, detections))
    make_folder(run.detections(set_name))
    files: dict[Path, Path] = {}
    try:
        for images, path in zip(detections.values(), run.detection_files(set_name, detections), strict=False):
            temporary = temporary_name(path)
            files[temporary] = path
            write_results(temporary, Detections.from_images(images))
    except BaseException:
        remove_temporary_files(files)
        raise
    return files


def publish_results(run: RunFolder, set_name: str, files: Mapping[Path, Path], stamp: Mapping[str, Any]) -> None:
    """Rename temporary result files, remove older ones of this program for other classes, and write the provenance.

    `stamp` is what the files are made with, see `detection_stamp`.
    """
    run.files.claim(files.values())
    run.remove(path for path in run.detections(set_name).glob("*.txt") if path not in files.values())
    for temporary, path in files.items():
        temporary.replace(path)
    run.write(run.detections(set_name) / STAMP, stamp_with_results(stamp, list(files.values())))


def remove_temporary_files(files: Iterable[Path]) -> None:
    """Remove the temporary files that exist, and their folders if these are empty."""
    for path in files:
        path.unlink(missing_ok=True)
        with suppress(OSError):  # not empty
            path.parent.rmdir()


def read_detections(stored: StoredRun, stage: str, set_name: str) -> dict[str, Detections]:
    """Return class -> its detections in a set; StageError if there are none, and as `check_detections`.

    A run of good pictures alone has no class, and no file of detections.
    """
    if not stored.data.classes:
        return {}
    folder = stored.folder.detections(set_name)
    found = read_results(folder, set_name) if any(folder.glob("*.txt")) else {}
    for name in stored.data.classes:
        if name not in found:
            raise unmet(stage, f"detections of {name!r}", f"{folder} has none", "detect")
    check_detections(stored, stage, set_name)
    return {name: found[name] for name in stored.data.classes}


def check_detections(stored: StoredRun, stage: str, set_name: str) -> None:
    """Raise StageError unless the result files of a set were made by the models, shards and settings of the run.

    The models themselves must have been made by its settings. Shards, and the models of all classes, are assumed to be
    unchanged if they are gone: a finished run may have been copied without them.
    """
    run, classes = stored.folder, stored.data.classes
    stamp = _stored_stamp(run, set_name) | {"settings": asdict(stored.settings.detect)}
    if any(map(run.has_model, classes)):
        trained_classes(stored, stage)
        stamp["models"] = model_hashes(run, classes)
    if run.has_shards(set_name):
        stamp["shards"] = _checksums(stored.shards(set_name))
    if not SetDetections.of(run, classes, set_name, stamp).state().is_current:
        others = f"{run.detections(set_name)} holds others"
        raise unmet(stage, "detections by the run's present models, shards and settings", others, "detect")


def _stored_stamp(run: RunFolder, set_name: str) -> dict[str, Any]:
    """Return the recorded models and shards of a set's result files; nothing if the record is missing or damaged."""
    stamp = read_json(run.detections(set_name) / STAMP)
    return {name: stamp[name] for name in ("models", "shards") if name in stamp} if isinstance(stamp, dict) else {}


def detection_stamp(
    run: RunFolder, classes: Sequence[str], shards: ShardSet, settings: DetectSettings
) -> dict[str, Any]:
    """Return the hashes of models and shards and the settings, which decide the detections."""
    return {"models": model_hashes(run, classes), "shards": _checksums(shards), "settings": asdict(settings)}


def _checksums(shards: ShardSet) -> list[str]:
    return [header.checksum for header in shards.headers]


def stamp_with_results(stamp: Mapping[str, Any], files: Sequence[Path]) -> str:
    """Return the content of ``detections.json``: `stamp` and the hashes of the result files."""
    results = {file.name: file_hash(file, "result file") for file in files}
    return json.dumps({**stamp, "results": results}, sort_keys=True, indent=1) + "\n"


def _record(path: Path) -> dict[str, str]:
    """Return the recorded inputs of a set's result files."""
    return {"record": read_regular(path, "file", SMALL_FILE).decode(errors="replace")}


class SetDetections(Product):
    """The result files of a set, whose record has its inputs: `detection_stamp` as text, with their hashes."""

    @classmethod
    def of(cls, run: RunFolder, classes: Sequence[str], set_name: str, stamp: Mapping[str, Any]) -> Self:
        """Return the product of a set; result files that are missing differ from every record."""
        *files, path = run.detection_files(set_name, classes)
        exist = all(file.is_file() for file in files)
        text = stamp_with_results(stamp, files) if exist and path.is_file() else ""
        return cls(path, {"record": text}, _record)


def detect_set(
    shards: ShardSet, names: Mapping[str, WindowPrior | None], score: Callable[[Shard], Float64],
    settings: DetectSettings, set_name: str, workspace: Workspace, pixels: Callable[[str], Pixels | None] | None = None,
) -> dict[str, list[ImageDetections]]:  # fmt: skip
    """Return class -> (picture, boxes, scores) over all shards.

    `names` has what the model of each class knows of boxes; `score` returns a shard's scores (windows,
    classes), and `pixels` a picture by its name, for boxes that take the extent of what stands out.
    """
    found: dict[str, list[ImageDetections]] = {name: [] for name in names}
    takes_extent = any(prior is not None and prior.takes_extent for prior in names.values())
    read = pixels if takes_extent else None

    def detect(index: int) -> tuple[Shard, list[list[ImageDetections]]]:
        shard = shards.read(index, verify=True)
        pictures = [None if read is None else read(image_id) for image_id in shard.image_ids]
        columns = zip(score(shard).T, names.values(), strict=True)
        return shard, [_detect_class(shard, column, settings, prior, pictures) for column, prior in columns]

    with (
        workspace.reporter.bar(f"detect {set_name}", shards.n_images, "pictures") as bar,
        one_blas_thread(),
        ThreadPoolExecutor(workspace.threads) as pool,
        closing(prefetched(pool, detect, range(len(shards)), workspace.threads)) as results,
    ):
        for _, (shard, detections) in results:
            for name, pictures in zip(names, detections, strict=True):
                found[name] += pictures
            bar.step(len(shard.image_ids), windows=len(shard.boxes))
    return found


def _detect_class(
    shard: Shard, scores: Float64, settings: DetectSettings, prior: WindowPrior | None,
    pictures: Sequence[Pixels | None],
) -> list[ImageDetections]:  # fmt: skip
    """Return the detections of one class in the pictures of one shard."""
    rows = [slice(start, stop) for start, stop in pairwise(shard.offsets)]
    each = zip(rows, pictures, strict=True)
    found = [detect_windows(scores[own], shard.boxes[own], settings, prior, pixels) for own, pixels in each]
    return [(image_id, *boxes) for image_id, boxes in zip(shard.image_ids, found, strict=True)]


def stored_probabilities(run: RunFolder, set_name: str, class_name: str, detections: Detections) -> Float64 | None:
    """Return the probability of each stored detection of a class.

    A detection's score is that of its result file, so that demotion lowers the probability of all but the best box of
    a picture; the best box has the probability that the picture shows the class.

    Parameters
    ----------
    run : RunFolder
    set_name, class_name : str
    detections : Detections
        Of this set and class.

    Returns
    -------
    ndarray of shape (n,), float64, or None
        None if the class's model has no calibration, is missing, or did not make the detections.
    """
    detector, models = stored_detector(run.model(class_name)), _stored_stamp(run, set_name).get("models")
    if detector is None or not isinstance(models, dict):
        return None
    product = of_model(run.detections(set_name) / STAMP, detector, lambda _: models.get(class_name))
    return detector.probability(detections.scores) if product.state().is_current else None
