"""Integrity of a run folder: the checks of its files, with and without checksums."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from lapsvm.catalog import ImageRecord, pixel_hash
from lapsvm.detection import AlarmThreshold, Detector
from lapsvm.errors import DataError, LapsvmError, ShardError
from lapsvm.features import load_projection, read_header
from lapsvm.files import read_regular
from lapsvm.objectness.normal import read_normal_map

from ..fitting.history import read_history
from ..products.fold_models import FoldModels
from ..products.held_out import HeldOut
from ..run.checked_files import file_hash, read_checked, read_json
from ..run.dataset import moved, open_run_data
from ..run.folder import STAMP, RunFolder
from ..settings.settings import Settings
from ..shards.jobs import FileCheck, check_shard


def signed_checks(run: RunFolder) -> Iterator[FileCheck]:
    """Yield the settings, and every file of the run that has a checksum, with the function that reads it."""
    if run.settings_file.is_file():
        yield run.settings_file, _check_settings
    for path in [*_shards(run), *filter(run.files.owns, [run.drawn_windows])]:
        yield path, check_shard
    if run.projection.is_file():
        yield run.projection, load_projection
    if run.normal_map.is_file():
        yield run.normal_map, read_normal_map
    if run.threshold_file.is_file() and run.files.lists(run.threshold_file):
        yield run.threshold_file, AlarmThreshold.load
    kinds = (
        (run.first_models, Detector.load),
        (run.models, Detector.load),
        (run.models_of_folds, FoldModels.load),
        (run.held_out_scores, HeldOut.load),
    )
    for folder, read in kinds:
        for path in sorted(folder.glob("*.safetensors")):
            if _is_ours(run, path):
                yield path, read


def _shards(run: RunFolder) -> list[Path]:
    """Return the shards of all sets, without files that lapsvm did not write."""
    return [path for path in sorted(run.path.glob("shards/*/*.safetensors")) if _is_ours(run, path)]


def _is_ours(run: RunFolder, path: Path) -> bool:
    """Return whether lapsvm wrote a file, or may have: nothing is known where the list is gone or damaged."""
    return run.files.lists(path) or not run.files.is_marked


def _check_settings(path: Path) -> None:
    """Raise DataError unless a file holds the settings of a run."""
    try:
        Settings.read(path)
    except LapsvmError as error:
        raise DataError(f"{path} cannot be read: {error}") from None


def picture_checks(run: RunFolder, root: str | None, damaged: set[Path]) -> Iterator[FileCheck]:
    """Yield the intact shards, with a function that compares their pictures with those of the data set."""
    settings = moved(run.require_settings("verify --pictures"), root)
    sets = open_run_data(settings.data, settings.seed).records
    for path in _shards(run):
        if path not in damaged:
            yield path, partial(_compare, records={record.id: record for record in sets.get(path.parent.name, ())})


def _compare(path: Path, records: dict[str, ImageRecord]) -> None:
    """Raise ShardError if a picture of a shard has changed or is missing."""
    header = read_header(path)
    for image_id, stored in zip(header.image_ids, header.pixel_hashes, strict=True):
        if image_id not in records:
            raise ShardError(f"shard {path} holds picture {image_id}, which the data set has no longer.")
        if pixel_hash(records[image_id].pixels()) != stored:
            raise ShardError(f"shard {path} was made from another picture {image_id} than the data set has now.")


def unsigned_checks(run: RunFolder) -> Iterator[FileCheck]:
    """Yield the files of a run that are damaged if they are no whole file of their kind, with what reads them."""
    for path in (run.evaluation_file, run.tuning_file):
        yield path, _check_table
    yield run.timings_file, partial(_check_timings, run)
    yield run.history_file, read_history
    yield run.page, _check_page
    for path in (run.choices_file, run.resume_file):
        yield path, _check_state
    for folder in sorted((run.path / "detections").glob("*")):
        yield folder / STAMP, _check_stamp
        for path in sorted(folder.glob("*.txt")):
            yield path, _check_result


def _check_table(path: Path) -> None:
    if not isinstance(read_json(path), dict):
        raise DataError(f"{path} is damaged: it is no JSON object.")


def _check_timings(run: RunFolder, path: Path) -> None:
    problems = list[str]()
    run.timings(problems.append)
    if problems:
        raise DataError(f"{path} is damaged: it holds no times.")


def _check_page(path: Path) -> None:
    if not read_regular(path, "page").rstrip().endswith(b"</html>"):
        raise DataError(f"{path} is damaged: it has no end.")


def _check_state(path: Path) -> None:
    if read_checked(path, lambda _: None) is None:
        raise DataError(f"{path} is damaged: its content does not match its checksum.")


def _check_stamp(path: Path) -> None:
    if _hashes(path) is None:
        raise DataError(f"{path} is damaged: it does not say what made the detections.")


def _check_result(path: Path) -> None:
    """Raise DataError unless a result file is the one that detection wrote; without a record of that any file is."""
    hashes = _hashes(path.with_name(STAMP))
    digest = file_hash(path, "result file")
    if hashes is not None and hashes.get(path.name) != digest:
        raise DataError(f"{path} is damaged or edited: it is not what lapsvm detect wrote.")


def _hashes(path: Path) -> dict[str, str] | None:
    """Return result file -> hash of the record of a set's detections; None if it is missing or damaged."""
    stamp = read_json(path)
    results = stamp.get("results") if isinstance(stamp, dict) else None
    return results if isinstance(results, dict) else None
