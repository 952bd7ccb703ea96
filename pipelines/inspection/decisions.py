"""The threshold of a run: the scores that it is chosen on, the stored one, and the command that chooses it."""

import math
import shlex
from collections.abc import Mapping
from dataclasses import asdict

import numpy as np

from lapsvm.arrays import Index
from lapsvm.detection import Detector
from lapsvm.detection.scoring import DETECTION, scoring_difference, threshold_fits
from lapsvm.errors import ModelFileError, OptionError, StageError
from lapsvm.evaluation import Detections
from lapsvm.inspection.decision import OK
from lapsvm.inspection.threshold import AlarmThreshold

from ..context import StoredRun
from ..products.detections import read_detections
from ..products.held_out import HeldOut, read_held_out
from ..products.models import load_detectors
from ..run.dataset import has_pictures_of_no_class, positive_pictures
from ..run.folder import RunFolder
from ..run.groups import n_groups
from ..run.progress import Reporter
from .probabilities import PictureProbabilities
from .whole_pictures import HELD_OUT, TESTED

USUAL_SHARE = 0.05
"""Of false alarms, where a command names one."""
_FEW = "it has too few pictures, or groups of them, for held-out scores"


def calibrated_detectors(stored: StoredRun) -> dict[str, Detector]:
    """Return class -> its detector.

    Raises StageError if a class has no detector by the run's settings, or one without probabilities, and OptionError if
    a class is called "ok".
    """
    if OK in stored.data.classes:
        raise OptionError(f"a threshold needs classes that are not called {OK!r}, as pictures without an alarm are.")
    detectors = {one.class_name: one for one in load_detectors(stored, "threshold")}
    for name, detector in detectors.items():
        if detector.calibration is None:
            raise StageError(f"threshold needs probabilities, but the model of {name!r} has none: {_FEW}.")
    return detectors


def known_held_out(run: RunFolder, detectors: Mapping[str, Detector]) -> dict[str, HeldOut]:
    """Return class -> the held-out scores of the training pictures; StageError if a class has none."""
    known: dict[str, HeldOut] = {}
    for name in detectors:
        held_out = read_held_out(run, name)
        if held_out is None:
            raise StageError(f"threshold needs held-out scores of {name!r}: {_FEW}, or lapsvm train makes them again.")
        known[name] = held_out
    return known


def run_record(stored: StoredRun) -> Detector:
    """Return a detector of no window whose provenance records the windows, features and detection of a run."""
    shards = stored.shards(stored.train_set)
    return Detector(
        "", np.empty(0), provenance={"shards": shards.provenance, DETECTION: asdict(stored.settings.detect)}
    )


def good_sets(stored: StoredRun) -> dict[str, PictureProbabilities]:
    """Return the pictures of the sets of a run of good pictures alone, without those that extraction left out."""
    names = {HELD_OUT: stored.train_set, TESTED: stored.settings.data.test_set}
    return {
        key: PictureProbabilities.of_no_class(stored.shards(name).image_ids)
        for key, name in names.items()
        if name in stored.data.records
    }


def known_detections(stored: StoredRun) -> Mapping[str, Detections] | None:
    """Return the detections of the test set; None without one.

    Raises StageError if there are none by the run's present models.
    """
    name = stored.settings.data.test_set
    return read_detections(stored, "threshold", name) if name in stored.data.records else None


def set_groups(stored: StoredRun, sets: Mapping[str, PictureProbabilities]) -> dict[str, Index]:
    """Return the groups (n,) of the pictures of each set."""
    names = {HELD_OUT: stored.train_set, TESTED: stored.settings.data.test_set}
    return {
        key: stored.groups(names[key], pictures.ids, stored.shards_if_any(names[key])) for key, pictures in sets.items()
    }


def stored_threshold(run: RunFolder, reporter: Reporter, detectors: Mapping[str, Detector]) -> AlarmThreshold | None:
    """Return the threshold that was chosen for the run's present models; None without one, or a line says why."""
    path = run.threshold_file
    if not path.is_file():
        return None
    try:
        alarm = AlarmThreshold.load(path)
        differences = [scoring_difference(alarm, detector) for detector in detectors.values()]
    except ModelFileError as error:
        reporter.say(f"{error} The page shows no threshold.")
        return None
    if threshold_fits(alarm, list(detectors.values())) and not any(differences):
        return alarm
    other = next(filter(None, differences), "other models")
    reporter.say(f"threshold {path} was chosen with {other}: the page shows none. Run lapsvm threshold again.")
    return None


def threshold_command(stored: StoredRun, detectors: Mapping[str, Detector]) -> str:
    """Return the command that chooses a threshold, to paste into a terminal; "" where the run cannot have one.

    Its share of false alarms is 5 %, or the least that the number of good pictures can promise.
    """
    name, classes = stored.train_set, stored.data.classes
    have_all = all(one.calibration is not None for one in detectors.values())
    if not has_pictures_of_no_class(stored.data, name) or not have_all or OK in classes:
        return ""
    ids = [record.id for record in stored.data.records[name]]
    shown = positive_pictures(stored.data.records[name], classes)
    is_good = np.array([image_id not in shown for image_id in ids])
    count = n_groups(stored.groups(name, ids, stored.shards_if_any(name)), is_good)
    share = max(USUAL_SHARE, math.ceil(100 / (count + 1)) / 100)
    folder = shlex.quote(str(stored.folder.path))
    return f"lapsvm threshold --out {folder} --max-false-alarms {share:g}" if share < 1 else ""
