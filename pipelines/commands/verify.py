"""Integrity of a run folder: every byte of shards, models, projection and normal map is compared with its checksum."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from lapsvm.catalog import ImageRecord, pixel_hash
from lapsvm.detection import Detector
from lapsvm.errors import MissingError, ShardError
from lapsvm.features import load_projection, read_header
from lapsvm.model_files import read_model
from lapsvm.objectness.normal import FORMAT, VERSION

from ..cli.answer import Outcome
from ..fitting.fold_models import FoldModels
from ..results.held_out import HeldOut
from ..run.dataset import moved, open_run_data
from ..run.folder import RunFolder
from ..run.ownership import is_of_another_program
from ..run.progress import Reporter
from ..shards.jobs import FileCheck, check_shard, failed_checks
from .repair import advice, unsigned_checks


def verify_run(options: Mapping[str, Any], threads: int) -> Outcome:
    """Check every file of a run folder that carries a checksum.

    Parameters
    ----------
    options : mapping
        Of the verb ``verify``. With ``pictures`` the pictures of the data set are decoded, too, and compared with the
        hashes in the shards. With ``remove`` damaged files and shards of changed pictures are removed, so that the next
        run makes only them again; files that lapsvm did not write, and files behind links, stay. With ``repair`` so
        are damaged files without a checksum, and what makes all of them again is said; what a person wrote stays.
    threads : int

    Raises
    ------
    MissingError
        If there is nothing to check.
    ImageError, MissingError
        If a picture cannot be read.
    ShardError
        If files are damaged and not removed, or are not there though a command listed them. It names the first; all are
        reported before.
    """
    run, reporter = RunFolder(options["out"]), Reporter(options["quiet"])
    pictures, repair = options["pictures"], options["repair"]
    remove = options["remove"] or repair
    jobs = list(_checks(run))
    jobs += [job for job in unsigned_checks(run) if job[0].is_file()] if repair and jobs else []
    if not jobs:
        raise MissingError(f"run folder {run.path} holds neither shards nor models.")
    removed: list[Path] = []
    with run.lock("lapsvm verify"):
        failures = failed_checks(reporter, "verify", jobs, threads)
        if pictures:
            intact = list(_picture_checks(run, options["root"], {path for path, _ in failures}))
            failures += failed_checks(reporter, "verify pictures", intact, threads)
        lost = _lost(run)
        for path in lost:
            reporter.say(f"{path} is not there: it was lost, or the command that makes it was interrupted.")
        gone = list(lost)
        for path, reason in failures:
            removable = run.files.owns(path) and not is_of_another_program(path)
            reporter.say(f"{reason}{(' It is removed.' if removable else ' It stays.') if remove else ''}")
            if remove and removable:
                gone += run.files.remove([path])
                removed.append(path)
        for sentence in advice(run, gone) if repair else ():
            reporter.say(sentence)
    if len(failures) > len(removed):
        kinds = "damaged, or made from other pictures" if pictures else "damaged"
        count = f"{len(failures)} of {len(jobs)} files are {kinds}, the first is {failures[0][0]}"
        raise ShardError(f"{count}; verify with --remove, then run again to make only these again.")
    if lost and not remove:
        count = f"{len(lost)} of {len(lost) + len(jobs)} files are not there, the first is {lost[0]}"
        raise ShardError(f"{count}; lapsvm run makes only these again.")
    n_intact = len(jobs) - len(failures)
    reporter.say(f"{n_intact} files are intact" + (f", {len(removed)} removed." if removed else "."))
    again = ("lapsvm", "run", "--out", str(run.path)) if removed or lost else ()
    return Outcome({}, {"intact": n_intact, "removed": list(map(str, removed))}, again)


def _checks(run: RunFolder) -> Iterator[FileCheck]:
    """Yield every file of the run that has a checksum, with the function that reads it."""
    for path in [*_shards(run), *filter(run.files.owns, [run.drawn_windows])]:
        yield path, check_shard
    if run.projection.is_file():
        yield run.projection, load_projection
    if run.normal_map.is_file():
        yield run.normal_map, partial(read_model, kind=FORMAT, version=VERSION)
    kinds = (
        (run.first_models, Detector.load),
        (run.models, Detector.load),
        (run.models_of_folds, FoldModels.load),
        (run.held_out_scores, HeldOut.load),
    )
    for folder, read in kinds:
        for path in sorted(folder.glob("*.safetensors")):
            if run.files.lists(path):
                yield path, read


def _lost(run: RunFolder) -> list[Path]:
    """Return the shards, models and what they share that a command listed, and that are not there.

    A copy of a run may be without any shards, or without any models.
    """
    kinds = [f"{name}/*.safetensors" for name in ("shards/*", "models") if any(run.path.glob(f"{name}/*.safetensors"))]
    return run.files.lost(*kinds, run.normal_map.name, run.projection.name)


def _shards(run: RunFolder) -> list[Path]:
    """Return the shards of all sets, without files that lapsvm did not write."""
    return [path for path in sorted(run.path.glob("shards/*/*.safetensors")) if run.files.lists(path)]


def _picture_checks(run: RunFolder, root: str | None, damaged: set[Path]) -> Iterator[FileCheck]:
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
